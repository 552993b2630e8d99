"""Offset commits of one group as its coordinator's log has them: aggregates, in the order of the log."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jobs.rules.groups.state import Row

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Commit:
    """One commit: the offset of the topic that it committed, its offset in the log, and its time there."""

    committed: int
    offset: int
    at: datetime | None


@dataclass(frozen=True)
class Commits:
    """Successive commits of one partition, between which lies no record of the group; and the removal that ended them.

    `gap`: begin and end of the longest time between two of them, None where there is one, or times are not known.
    `fallen`: by how much the committed offset fell among them, all falls together.
    """

    first: Commit
    last: Commit
    gap: tuple[datetime, datetime] | None = None
    fallen: int = 0
    removed_offset: int | None = None


@dataclass
class CommitLog:
    """The commits of a group in one partition of the log since the last break there: by topic and partition, in order.

    `breaks`: offsets up to which commits may be missing: records were gone before they could be read, or had been
    taken back.
    """

    of: dict[Partition, list[Commits]] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)


def commit_log(rows: Iterable[Row]) -> CommitLog:
    """The commits of some rows of bronze.group_log, of one partition of the log: those of the group's `commits`, and
    `marker`, `lost` and `truncated` of the partition. In any order.

    Commits of a transaction that was open at the end of what was read count at the producer's next marker, if that
    commits; which they do not once rows were lost between (the marker may be among those).
    """
    found, pending = CommitLog(), dict[int, list[Row]]()
    # A marker ends what was open before the batch that read it.
    for row in sorted(rows, key=_place):
        kind, producer = row["record"], row["producer_id"]
        if kind in ("lost", "truncated"):
            pending.clear()
            found.of.clear()
            found.breaks.append(row["next_offset"] - 1 if kind == "lost" else row["next_offset"])
        elif kind == "marker":
            for entry in pending.pop(producer, ()):
                if row["is_committed"]:
                    _add(found, entry, row)
        elif producer is not None:
            pending.setdefault(producer, []).extend(row["offset_commits"])
        else:
            for entry in row["offset_commits"]:
                _add(found, entry, None)
    return found


_ORDER = {"lost": 0, "truncated": 0, "marker": 1, "commits": 2}


def _place(row: Row) -> tuple[Any, ...]:
    kind = row["record"]
    # What is open at the end of a batch comes after all that the batch tells.
    is_open = kind == "commits" and row["producer_id"] is not None
    at = row["next_offset"] if kind == "truncated" else row["offset"]
    return row["read_at"], is_open, at, _ORDER[kind], row["chunk"] or 0


def _add(found: CommitLog, entry: Row, marker: Row | None) -> None:
    """Add an aggregate of bronze; of a transaction as if all of it were written at the `marker`."""
    if entry["commits"]:
        at = {end: (entry[f"{end}_offset"], entry[f"{end}_timestamp"]) for end in ("from", "to")}
        if marker is not None:
            at = dict.fromkeys(at, (marker["offset"], marker["timestamp"]))
        first, last = Commit(entry["first_committed"], *at["from"]), Commit(entry["last_committed"], *at["to"])
        gap = None if marker is not None or entry["gap_from"] is None else (entry["gap_from"], entry["gap_to"])
        of_partition = found.of.setdefault((entry["topic"], entry["partition"]), [])
        of_partition.append(Commits(first, last, gap, entry["fallen"], entry["removed_offset"]))
    elif of_partition := found.of.get((entry["topic"], entry["partition"]), []):
        removed = entry["removed_offset"] if marker is None else marker["offset"]
        of_partition.append(replace(of_partition.pop(), removed_offset=removed))
