"""Make small changes of the product, one at a time, and see a test of the changed module fail.

A mutant is a line of `tools/mutants/*.jsonl`: `file`, `old` (a text that the file has once), `new`,
and, where the change makes no difference that anybody could see, `same`: the reason. The tests of
`jobs/rules/gold/causes.py` are `tests/unit/jobs/rules/gold/test_causes.py`; where others prove it,
`tests` names them. The command exits 1 if a mutant survives without a reason, or fits no longer.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LISTS: Final = Path(__file__).parent
ROOT: Final = LISTS.parents[1]
PARTS: Final = 20
"""Of the whole list: continuous integration runs one of them, another one each day."""
_TIMEOUT_S: Final = 600


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
    parser.add_argument("--part", help=f"0 to {PARTS - 1}, or `today`: one mutant of {PARTS}")
    parser.add_argument("--jobs", type=int, default=2, help="that many at once (default 2)")
    given = parser.parse_args(argv)
    chosen = [each for each in mutants() if each.file.startswith(given.file)]
    if given.part is not None:
        today = datetime.now(UTC).toordinal() % PARTS
        chosen = chosen[today if given.part == "today" else int(given.part) :: PARTS]
    bad = [f"{each}: {why}" for each in chosen if (why := problem(each))]
    with ThreadPoolExecutor(given.jobs) as threads, tempfile.TemporaryDirectory() as scratch:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(given.jobs):
            copies.put(_copy(Path(scratch) / str(number)))
        made = [each for each in chosen if not each.same and not problem(each)]
        whole = sorted({each.proven_by for each in made})
        # What fails without a change notices nothing.
        bad += filter(None, threads.map(lambda tests: _unchanged(copies, tests), whole))
        bad += filter(None, threads.map(lambda each: _survivor(copies, each), made))
    print(f"{len(made)} mutants were made, {len(bad)} findings", flush=True)
    for each in bad:
        print(f"  {each}")
    return 1 if bad else 0


def _copy(folder: Path) -> Path:
    """Copy what the tests need of the checkout, uncommitted changes with it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file() and not name.endswith(".tar.xz"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _unchanged(copies: queue.Queue[Path], tests: Sequence[str]) -> str | None:
    copy = copies.get()
    try:
        done = _run(copy, tests)
    finally:
        copies.put(copy)
    return f"{', '.join(tests)} fail without a change:\n{done.stdout}" if done.returncode else None


def _survivor(copies: queue.Queue[Path], mutant: Mutant) -> str | None:
    """Return the finding, if the tests do not notice the mutant."""
    copy = copies.get()
    changed = copy / mutant.file
    original = changed.read_text(encoding="utf-8")
    try:
        changed.write_text(original.replace(mutant.old, mutant.new), encoding="utf-8")
        code = _run(copy, mutant.proven_by).returncode
    except subprocess.TimeoutExpired:
        code = 1  # it hangs: that is noticed
    finally:
        changed.write_text(original, encoding="utf-8")
        copies.put(copy)
    said = {0: "survives", 1: "noticed"}.get(code, "cannot be imported")
    print(f"{said}: {mutant}", flush=True)
    return None if code == 1 else f"{said}: {mutant}"


def _run(copy: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # Chance must not decide, so random cases are the same ones each time.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "--hypothesis-seed=0"]
    return subprocess.run(
        [*command, *tests],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy)},
        timeout=_TIMEOUT_S,
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
