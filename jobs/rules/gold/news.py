"""The input and the answer of a fold of gold: rows of silver that are new, one cluster at a time, poll by poll.

A row is a dict by column names: lists for arrays, aware UTC datetimes, None for null.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas import silver

Row = dict[str, Any]
Memory = dict[str, Any]
"""The memory of a fold, of one cluster, besides its live rows: fit for JSON."""

CLUSTERS = silver.CLUSTER_SNAPSHOTS.full_name
BROKERS = silver.BROKER_SNAPSHOTS.full_name
SETTINGS = silver.TOPIC_CONFIGS.full_name
REASSIGNMENTS = silver.REASSIGNMENTS.full_name
PARTITIONS = silver.PARTITION_SNAPSHOTS.full_name
PARTITION_ELR = silver.PARTITION_ELR.full_name

TIMES = "times"
"""Not a column: for how many partitions a row of silver.partition_snapshots stands, without 1. They were first seen by
the same poll, with all replicas in sync, and have the same leader and preferred leader; nothing else of them matters to
gold.
"""


@dataclass(frozen=True)
class News:
    """Rows of silver, by the table's full name, that began or ended in (done_poll, settled_poll].

    They are as they were at settled_poll: a later end is null. A row that began and ended in between is there once.
    `context`: rows of silver.partition_snapshots that held all the time, of topics whose settings changed.
    `done_poll`: None when nothing is done yet.
    """

    rows: Mapping[str, Sequence[Row]]
    done_poll: str | None
    settled_poll: str
    settled_at: datetime
    context: Sequence[Row] = ()

    @classmethod
    def of(
        cls, rows: Mapping[str, Sequence[Row]], done_poll: str | None, settled_poll: str, settled_at: datetime
    ) -> "News":
        """The news among `rows` of silver, by table; any history that has them."""
        done = done_poll or ""

        def is_new(row: Row) -> bool:
            return done < row["first_poll"] <= settled_poll or done < (row["superseded_poll"] or "") <= settled_poll

        def held(row: Row) -> bool:
            return row["first_poll"] <= done and not (row["superseded_poll"] or "~") <= settled_poll

        new = {table: [as_of(row, settled_poll) for row in of_table if is_new(row)] for table, of_table in rows.items()}
        topics = {row["topic"] for row in new.get(SETTINGS, ())}
        context = [row for row in rows.get(PARTITIONS, ()) if row["topic"] in topics and held(row)]
        return cls(new, done_poll, settled_poll, settled_at, [as_of(row, settled_poll) for row in context])

    def polls(self) -> list["Poll"]:
        """The polls by which something began or was over, in order."""
        found: dict[str, Poll] = {}

        def poll(poll_id: str, at: datetime) -> Poll:
            if poll_id not in found:
                found[poll_id] = Poll(poll_id, at)
            return found[poll_id]

        for table, rows in self.rows.items():
            for row in rows:
                if row["first_poll"] > (self.done_poll or ""):
                    poll(row["first_poll"], row["valid_from"]).began[table].append(row)
                if row["superseded_poll"] is not None:
                    poll(row["superseded_poll"], row["valid_to"]).over[table].append(row)
        return [found[poll_id] for poll_id in sorted(found)]


@dataclass(frozen=True)
class Poll:
    """The rows, by table, that began with a poll answered `at`, and those over by it: superseded, or ended.

    Within a poll, levels come first, then brokers, settings, reassignments, partitions, and ELR last.
    """

    poll_id: str
    at: datetime
    began: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    over: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))


@dataclass(frozen=True)
class Folded:
    """The memory of a fold, its new and changed rows by table, and when to call it again though nothing is new."""

    memory: Memory
    rows: Mapping[str, Sequence[Row]]
    deadline: datetime | None = None


def as_of(row: Row, poll_id: str) -> Row:
    """A snapshot as it was at a poll: without an end that came later."""
    ended = row["superseded_poll"]
    return row if ended is None or ended <= poll_id else row | dict.fromkeys(silver.INTERVAL_ENDS)
