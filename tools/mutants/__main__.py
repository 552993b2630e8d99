"""Make small changes of the product, one at a time, and see a test of the changed module fail.

A mutant is a line of `tools/mutants/*.jsonl`: `file`, `old` (a text that the file has once), `new`,
and, where the change makes no difference that anybody could see, `same`: the reason. The tests of
`jobs/rules/gold/causes.py` are `tests/unit/jobs/rules/gold/test_causes.py`; where others prove it,
`tests` names them. The command exits 1 if a mutant survives without a reason, or fits no longer.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.mutants.copies import Copy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LISTS: Final = Path(__file__).parent
ROOT: Final = LISTS.parents[1]
PARTS: Final = 20
"""Of the whole list: continuous integration runs one of them, another one each day."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    old: str
    new: str
    same: str | None = None
    tests: tuple[str, ...] = ()

    @property
    def proven_by(self) -> tuple[str, ...]:
        """The files of tests, one of which must fail."""
        folder, _, name = self.file.rpartition("/")
        return self.tests or (f"tests/unit/{folder}/test_{name}",)

    def __str__(self) -> str:
        def short(text: str) -> str:
            return " ".join(text.split())

        return f"{self.file}: {short(self.old)!r} -> {short(self.new)!r}"


def mutants(lists: Path = LISTS) -> list[Mutant]:
    """Return all mutants, in the order of the lists' names."""
    return [
        Mutant(**(fields | {"tests": tuple(fields.get("tests", ()))}))
        for file in sorted(lists.glob("*.jsonl"))
        for fields in map(json.loads, file.read_text(encoding="utf-8").splitlines())
    ]


def problem(mutant: Mutant) -> str | None:
    """Return why a mutant cannot be made, or None."""
    file = ROOT / mutant.file
    if not file.exists():
        return "there is no such file"
    if (count := file.read_text(encoding="utf-8").count(mutant.old)) != 1:
        return f"the file has the old text {count} times"
    missing = [name for name in mutant.proven_by if not (ROOT / name).exists()]
    return f"there is no {missing[0]}" if missing else None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the mutants that the arguments name; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--file", default="", help="only files whose path begins so")
    parser.add_argument(
        "--part",
        help=f"0 to {PARTS - 1}, or `today`: one mutant of {PARTS}. That the tests pass without a "
        "change is not tried then",
    )
    parser.add_argument("--jobs", type=int, default=2, help="that many at once (default 2)")
    given = parser.parse_args(argv)
    chosen = [each for each in mutants() if each.file.startswith(given.file)]
    if given.part is not None:
        today = datetime.now(UTC).toordinal() % PARTS
        chosen = chosen[today if given.part == "today" else int(given.part) :: PARTS]
    bad = [f"{each}: {why}" for each in mutants() if (why := problem(each))]
    made = [each for each in chosen if not each.same and not problem(each)]
    with ThreadPoolExecutor(given.jobs) as threads, tempfile.TemporaryDirectory() as scratch:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(given.jobs):
            copies.put(Copy(ROOT, Path(scratch) / str(number)))
        if given.part is None:
            # What fails without a change notices nothing.
            whole = sorted({each.proven_by for each in made})
            bad += filter(None, threads.map(lambda tests: _unchanged(copies, tests), whole))
        bad += filter(None, threads.map(lambda each: _survivor(copies, each), made))
    print(f"{len(made)} mutants were made, {len(bad)} findings", flush=True)
    for each in bad:
        print(f"  {each}")
    return 1 if bad else 0


@contextmanager
def _one_of(copies: queue.Queue[Copy]) -> Iterator[Copy]:
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


def _unchanged(copies: queue.Queue[Copy], tests: Sequence[str]) -> str | None:
    with _one_of(copies) as copy:
        said = None if copy.run(tests) == 0 else copy.said()
    return said and f"{', '.join(tests)} fail without a change:\n{said}"


def _survivor(copies: queue.Queue[Copy], mutant: Mutant) -> str | None:
    """Return the finding, if the tests do not notice the mutant."""
    with _one_of(copies) as copy, copy.changed(mutant.file, mutant.old, mutant.new):
        code = copy.run(mutant.proven_by)
    said = {0: "survives", 1: "noticed"}.get(code, "cannot be imported")
    print(f"{said}: {mutant}", flush=True)
    return None if code == 1 else f"{said}: {mutant}"


if __name__ == "__main__":
    sys.exit(main())
