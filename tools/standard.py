"""Hold the present code against that of commit BEFORE: both make rows of the same inputs, which are
compared.

    python -m tools.standard [--seeds N] [--logs N] [--parts NAME,...] [--code FOLDER] [--keep
    FOLDER]

Inputs are made from seeds (tools/standard_inputs.py), rows by each code in a process of its own
(tools/standard_rows.py). Prints how many rows were compared and the first differences; exits with 1
if there is one.

It is scaffolding for changes that must change no row: it is deleted when there is one engine.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "2a1ce6ae3dfc4a6ee2d734391adf85d8cc982fe3"
"""The last commit before the code becomes less."""
PARTS = ("lakes", "turns", "groups", "lag", "cost", "polls", "group_logs", "cluster_logs", "rounds")
SHOWN = 5
"""So many differences of a part are shown."""

OF_A_POLL = (
    "poll_id",
    "stream",
    "sent_at",
    "received_at",
    "asked_at",
    "answered_at",
    "latency_ms",
    "broker",
    "brokers",
    *("commit_read_after", "commit_read_before", "ends_read_after", "ends_read_before"),
)
LEFT_OUT = {
    "updated_at": "when a row was made",
    "read_at": "when a log was read",
    "day": "of when a log was read",
    "part": "where a row lies is no rule of history",
    "internal.rounds.at": "when a round was planned",
    "internal.rounds.writer": "random",
    "internal.rounds.takes": "a plan has a type, and its JSON lacks fields that have their default",
    "internal.states.at": "when a log was read",
    "internal.state.at": "the same, in the view",
    "contradictions": "the signs by which a cluster is guessed to be of another maker are deleted",
    "prev_contradictions": "the same",
    "suspected": "the same, in the memory of silver",
    **{
        f"bronze.metadata_polls.{name}": "when and at which port a broker was polled"
        for name in OF_A_POLL
    },
}
"""Column, or field at any depth of a row, of all tables or of one -> why it is not compared."""

CLUSTERS = "silver.cluster_snapshots"
ENDS = {
    "last_poll",
    "last_seen_at",
    "last_seen_sent_at",
    "superseded_poll",
    "valid_to",
    "end_reason",
    "to_offset",
}
"""Columns of how a row ended."""


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seeds", type=int, default=200, help="so many lakes, groups, ... (default: 200)"
    )
    parser.add_argument(
        "--logs", type=int, default=20, help="so many logs of each kind (default: 20)"
    )
    parser.add_argument(
        "--parts", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}; rounds takes a JVM"
    )
    parser.add_argument(
        "--code", type=Path, default=ROOT, help="the present code (default: this repository)"
    )
    parser.add_argument(
        "--keep", type=Path, help="keep inputs and rows there, and take what is there of before"
    )
    given = parser.parse_args()
    with TemporaryDirectory() as scratch, checked_out(Path(scratch, "code")) as before:
        folder = given.keep or Path(scratch)
        inputs, count = folder / "inputs.pickle", 0
        if not inputs.exists():
            folder.mkdir(parents=True, exist_ok=True)
            run(before, "standard_inputs.py", inputs, given.seeds, given.logs)
        for part in given.parts.split(","):
            since = time.monotonic()
            files = [folder / name / f"{part}.jsonl" for name in ("before", "now")]
            files[1].unlink(missing_ok=True)
            with ThreadPoolExecutor(2) as pool:
                codes = zip((before, given.code), files, strict=True)
                for each in [pool.submit(make, *code, inputs, part) for code in codes]:
                    each.result()
            found = compared(*files)
            print(
                f"{part}: {found.total():,} rows, {found.different:,} differ, "
                f"{time.monotonic() - since:.0f} s"
            )
            for line in found.lines:
                print(f"  {line}")
            print(end="", flush=True)
            count += found.different
    return int(count > 0)


@contextmanager
def checked_out(folder: Path) -> Iterator[Path]:
    """The code of before in a worktree, which is removed at the end."""
    git = ("git", "-C", str(ROOT), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), BEFORE], check=True)
    try:
        (folder / ".jars").symlink_to(ROOT / ".jars")
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def make(code: Path, file: Path, inputs: Path, part: str) -> None:
    """Make the rows of a part by a code, unless they are there."""
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        made = file.with_suffix(".part")
        run(code, "standard_rows.py", inputs, made, part)
        made.rename(file)


def run(code: Path, script: str, *arguments: object) -> None:
    """Run a script of this folder with a code."""
    with TemporaryDirectory() as scratch:
        environment = os.environ | {"PYTHONPATH": str(code.resolve())}
        command = [
            sys.executable,
            "-P",
            str(Path(__file__).with_name(script)),
            *map(str, arguments),
        ]
        done = subprocess.run(
            command, cwd=scratch, env=environment, stderr=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(
                f"{done.stderr[-4_000:]}\n{' '.join(map(str, arguments))}: {code} failed, as above"
            )


# --- comparing ---


class Compared:
    """The number of rows of each table, and what differs."""

    def __init__(self) -> None:
        self.tables: Counter[str] = Counter()
        self.different = 0
        self.lines: list[str] = []

    def total(self) -> int:
        return self.tables.total()


def compared(before: Path, now: Path) -> Compared:
    """Compare the rows of two files, case by case."""
    found = Compared()
    for old, new in zip_longest(cases(before), cases(now), fillvalue=("", {})):
        case = old[0] or new[0]
        if old[0] != new[0]:
            found.different += 1
            found.lines.append(
                f"{case}: there is {old[0] or 'nothing'!r} before and {new[0] or 'nothing'!r} now"
            )
            return found
        for table in sorted({*old[1], *new[1]}):
            gone, come = old[1].get(table, Counter()), new[1].get(table, Counter())
            found.tables[table] += gone.total()
            gone, come = gone - come, come - gone
            found.different += max(gone.total(), come.total())
            found.lines += [
                f"{case} {table}: {line}"
                for line in differences([*gone.elements()], [*come.elements()])
            ]
            del found.lines[SHOWN:]
    return found


def cases(file: Path) -> Iterator[tuple[str, Mapping[str, Counter[str]]]]:
    """Each case, and its rows by table."""
    with file.open() as lines:
        for case, rows in groupby(map(json.loads, lines), lambda row: row[0]):
            tables: dict[str, list[Any]] = defaultdict(list)
            for _, table, row in rows:
                tables[table].append(stripped(row, table))
            tables[CLUSTERS] = joined(tables.get(CLUSTERS, []))
            yield (
                case,
                {
                    table: Counter(json.dumps(row, sort_keys=True) for row in of)
                    for table, of in tables.items()
                },
            )


def stripped(value: Any, table: str) -> Any:
    """A value without what is left out. What is JSON in a column is one more depth."""
    if isinstance(value, list):
        return [stripped(each, table) for each in value]
    if isinstance(value, str) and value[:1] == "{":
        try:
            return stripped(json.loads(value), table)
        except ValueError:
            return value
    if not isinstance(value, dict):
        return value
    kept = {name for name in value if name not in LEFT_OUT and f"{table}.{name}" not in LEFT_OUT}
    return {name: stripped(value[name], table) for name in kept}


def joined(rows: list[Any]) -> list[Any]:
    """Rows of CLUSTERS; of one that differs only in what is left out, the one before."""
    found: list[Any] = []
    for row in sorted(rows, key=lambda row: (row["cluster_id"], row["first_poll"])):
        before, state = found[-1] if found else {}, [name for name in row if f"prev_{name}" in row]
        is_next = (
            before.get("superseded_poll") == row["first_poll"] and before["end_reason"] is None
        )
        if is_next and all(before[name] == row[name] for name in state):
            found[-1] = before | {name: row[name] for name in row if name in ENDS}
        else:
            found.append(row)
    return found


def differences(gone: Sequence[str], come: Sequence[str]) -> Iterator[str]:
    """A line for each row that differs: its columns unlike those of the row most like it."""
    left = [json.loads(row) for row in come]
    for row in map(json.loads, gone[:SHOWN]):
        if not left:
            yield f"only before: {short(row)}"
            continue
        other = min(left, key=lambda other: len(unlike(row, other)))
        left.remove(other)
        told = (
            (name, row.get(name, "no column"), other.get(name, "no column"))
            for name in unlike(row, other)
        )
        yield "; ".join(within(*each) for each in told)
    if len(gone) < SHOWN:
        yield from (f"only now: {short(row)}" for row in left[:SHOWN])


def unlike(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The columns that differ."""
    return sorted(name for name in {*one, *other} if one.get(name, ...) != other.get(name, ...))


def within(path: str, one: Any, other: Any) -> str:
    """Where two values differ, as deep as they are alike, and how."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        name = next(name for name in one if one[name] != other[name])
        return within(f"{path}.{name}", one[name], other[name])
    return f"{path} was {short(one)}, is {short(other)}"


def short(value: Any) -> str:
    """A value in a line."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:160]}..."


if __name__ == "__main__":
    sys.exit(main())
