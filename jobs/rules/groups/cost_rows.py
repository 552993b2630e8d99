"""A rebalance, a visit of a partition, and what the rebalance cost: rows as `cost` folds them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from jobs.rules.groups.commits import Partition
from jobs.rules.groups.rows import EMPTIED


class Awaited(TypedDict):
    """The last commit before a rebalance was over, which another one has to follow.

    `there_before`: by when a record was there that it did not have, as far as visits say. `set_to`:
    the offset that was set since, by no member.
    """

    committed: int
    at: datetime | None
    there_before: datetime | None
    set_to: int | None


class Cost(TypedDict):
    """gold.rebalance_cost, without the columns that say which group it is."""

    rebalance_id: str
    topic: str
    partition: int
    began_before: datetime
    ended_before: datetime
    commit_gap_ms: int | None
    last_commit_at: datetime | None
    last_committed: int | None
    first_commit_at: datetime | None
    first_committed: int | None
    cadence_ms: int | None
    pause_ms_min: int | None
    pause_ms_max: int | None
    pause_unknown: str | None
    reprocessed_min: int | None
    reprocessed_max: int | None
    lost_unread: int | None
    lag_before: int | None
    lag_peak: int | None
    lag_peak_at: datetime | None
    lag_back_after: datetime | None
    lag_back_before: datetime | None
    committed_before: int | None
    awaits_after: Awaited | None
    close_reason: str | None


@dataclass(frozen=True)
class Rebalance:
    """The columns of a rebalance that its cost follows from; `ended` is None while it lasts.

    `emptied`: it left no member. `was_empty`: the one before it had, whether or not that one is
    known here.
    """

    id: str
    log_partition: int
    first_offset: int
    last_offset: int
    began: datetime
    ended: datetime | None
    emptied: bool
    was_empty: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Rebalance":
        """A row of internal.rebalances that the log told."""
        given = {name: row[name] for name in ("id", "log_partition", "first_offset")}
        given |= {"last_offset": max(row["last_offset"] or 0, row["first_offset"])}
        was_empty = row["prev_members"] == 0 and row["since_previous_ms"] is not None
        times = {"began": row["began_before"], "ended": row["ended_before"]}
        return cls(**given, **times, emptied=row["end_reason"] == EMPTIED, was_empty=was_empty)


@dataclass(frozen=True)
class Visit:
    """A partition as it was asked for once: what was committed, read between the times `commit`,
    then the ends of its log, read between the times `ends`. A value that is not known is None.
    """

    committed: int | None
    log_start: int | None
    log_end: int | None
    commit: tuple[datetime, datetime]
    ends: tuple[datetime, datetime] | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Visit":
        """An entry of bronze.metadata_polls.offsets."""
        ends = (
            None
            if row["ends_read_before"] is None
            else (row["ends_read_after"], row["ends_read_before"])
        )
        commit = row["commit_read_after"], row["commit_read_before"]
        return cls(row["committed_offset"], row["log_start"], row["log_end"], commit, ends)

    @property
    def lag(self) -> int | None:
        """The most that the group was behind; None where that is not known."""
        if self.committed is None or self.log_end is None:
            return None
        return max(0, self.log_end - self.committed)


Visits = Mapping[Partition, Sequence[Visit]]
