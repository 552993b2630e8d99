"""``python -m benchmarks.rounds [--only NAME,...] [--all] [--runs N] [--json FILE]``: measure, and
print a table beside the aims.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds.aims import AIMS, BY_NAME, ONLY_IF_ALL
from benchmarks.rounds.results import as_json, table
from benchmarks.rounds.suite import chosen, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.rounds.results import Results

RUNS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit status is 1 when something could not be measured."""
    arguments = _parser().parse_args(argv)
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    measures = chosen(arguments.only, every=arguments.all)
    results: Results = {}
    for found in measured(measures, arguments.runs, lambda what: print(what, flush=True)):
        results |= found
        if arguments.json:
            arguments.json.write_text(json.dumps(as_json(results), indent=1) + "\n")
    print("\n".join(["", *table(results)]), flush=True)
    return int(any(set(measure.names) - results.keys() for measure in measures))


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(
        f"  {aim.name:<16} {aim.relation} {aim.wanted:g} {aim.unit:<6} {aim.says}" for aim in AIMS
    )
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.rounds",
        description="Measure rounds of history, and what the product costs.",
        epilog=f"names and aims:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write name -> value, unit, aim, runs"
    )
    parser.add_argument(
        "--only", type=_names, metavar="NAME,...", help="these names, and those that come with them"
    )
    parser.add_argument("--all", action="store_true", help=f"{' and '.join(ONLY_IF_ALL)} too")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="of each round that is timed (default %(default)s)"
    )
    return parser


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in BY_NAME]:
        raise argparse.ArgumentTypeError(
            f"no such name: {', '.join(unknown)}; known: {', '.join(BY_NAME)}"
        )
    return names


if __name__ == "__main__":
    sys.exit(main())
