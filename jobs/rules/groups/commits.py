"""Offset commits of one group in its coordinator's log: aggregates, in the order of the log."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from jobs.rules.groups.state import Row

Partition = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Commit:
    """One commit: the offset of the topic, and its own offset and time in the log."""

    committed: int
    offset: int
    at: datetime | None


@dataclass(frozen=True)
class Removal:
    """A record that removed the committed offset: its offset in the log, and its time there."""

    offset: int
    at: datetime | None


@dataclass(frozen=True)
class Commits:
    """Successive commits of one partition, between which lies no record of the group.

    `gap`: begin and end of the longest time between two of them, None where there are none, or
    times are not known. `fallen`: by how much the committed offset fell among them, all falls
    together.
    """

    first: Commit
    last: Commit
    gap: tuple[datetime, datetime] | None = None
    fallen: int = 0


@dataclass
class CommitLog:
    """The commits of a group in one partition of the log since the last break there: by topic and
    partition, in order.

    `removals`: the records that removed the committed offset, likewise. `breaks`: offsets up to
    which commits may be missing: records were gone before they could be read, or had been taken
    back.
    """

    of: dict[Partition, list[Commits]] = field(default_factory=dict)
    removals: dict[Partition, list[Removal]] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)


def commit_log(rows: Iterable[Row]) -> CommitLog:
    """The commits of some rows of bronze.group_log, of one partition of the log: those of the
    group's `commits`, and `marker`, `lost` and `truncated` of the partition. In any order.

    Commits of a transaction that was open at the end of what was read count at the producer's next
    marker, if that commits; which they do not once rows were lost between (the marker may be among
    those).
    """
    rows, found, pending = list(rows), CommitLog(), dict[int, list[Row]]()
    # Offsets go back where the log was truncated. Otherwise the order of offsets is that of the
    # log, whatever the clock of who read it did.
    truncated = sorted(row["read_at"] for row in rows if row["record"] == "truncated")
    for row in sorted(
        rows, key=lambda row: (bisect_right(truncated, row["read_at"]), *_place(row))
    ):
        record, producer = row["record"], row["producer_id"]
        if record in ("lost", "truncated"):
            pending.clear()
            found.of.clear()
            found.removals.clear()
            found.breaks.append(row["next_offset"] - 1 if record == "lost" else row["next_offset"])
        elif record == "marker":
            for entry in pending.pop(producer, ()):
                if row["is_committed"]:
                    _add(found, entry, row)
        elif producer is not None:
            pending.setdefault(producer, []).extend(row["offset_commits"])
        else:
            for entry in row["offset_commits"]:
                _add(found, entry, None)
    for commits in found.of.values():
        commits.sort(key=lambda each: each.first.offset)
    return found


_ORDER = {"lost": 0, "truncated": 0, "marker": 1, "commits": 2}


def _place(row: Row) -> tuple[int, int, int]:
    at = row["next_offset"] if row["record"] == "truncated" else row["offset"]
    return at, _ORDER[row["record"]], row["chunk"] or 0


def _add(found: CommitLog, entry: Row, marker: Row | None) -> None:
    """Add an aggregate of bronze; of a transaction as if all of it were written at the `marker`."""
    partition = entry["topic"], entry["partition"]
    if entry["commits"]:
        at = {end: (entry[f"{end}_offset"], entry[f"{end}_timestamp"]) for end in ("from", "to")}
        if marker is not None:
            at = dict.fromkeys(at, (marker["offset"], marker["timestamp"]))
        first, last = (
            Commit(entry["first_committed"], *at["from"]),
            Commit(entry["last_committed"], *at["to"]),
        )
        gap = (
            None
            if marker is not None or entry["gap_from"] is None
            else (entry["gap_from"], entry["gap_to"])
        )
        found.of.setdefault(partition, []).append(Commits(first, last, gap, entry["fallen"]))
    if entry["removed_offset"] is not None:
        of = Removal(entry["removed_offset"], entry["removed_timestamp"])
        found.removals.setdefault(partition, []).append(
            of if marker is None else Removal(marker["offset"], marker["timestamp"])
        )
