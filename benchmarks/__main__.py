"""``python -m benchmarks [NAME...] [--runs N] [--keep]``: measure, and print a table beside the
aims.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.aims import AIMS
from benchmarks.results import PAGE, as_json, kept, table
from benchmarks.suite import LONG, MEASURES, chosen, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.results import Results

RUNS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit status is 1 when something could not be measured."""
    arguments = _parser().parse_args(argv)
    # So that everything that was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    measures = chosen([*arguments.names, *arguments.only], every=arguments.all)
    results: Results = {}
    for found in measured(measures, arguments.runs, lambda what: print(what, flush=True)):
        results |= found
        if arguments.json:
            arguments.json.write_text(json.dumps(as_json(results), indent=1) + "\n")
        if arguments.keep:
            PAGE.write_text(kept(PAGE.read_text(), found))
    print("\n".join(["", *table(results)]), flush=True)
    return int(any(set(measure.names) - results.keys() for measure in measures))


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {aim.name:<24} {aim!s:<14} {aim.says}" for aim in AIMS)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure what the product takes: memory, processors, seconds.",
        epilog=f"parts: {', '.join(MEASURES)}\n\nnames and aims:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", type=_name, help="a part, or one name of it"
    )
    parser.add_argument(
        "--only", type=_names, default=[], metavar="NAME,...", help="the same, in one word"
    )
    parser.add_argument("--all", action="store_true", help=f"{', '.join(LONG)} too: hours")
    parser.add_argument(
        "--runs", type=int, default=RUNS, help="of each that is timed (default %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="write the results into RESULTS.md")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write name -> value, unit, aim, runs"
    )
    return parser


def _name(text: str) -> str:
    if not chosen([text]):
        raise argparse.ArgumentTypeError(f"no such name: {text}; --help lists all")
    return text


def _names(text: str) -> list[str]:
    return [_name(each) for each in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
