"""The input, the memory and the answer of a fold of gold: rows of silver that are new, one cluster
at a time.

A row is a dict by column names: lists for arrays, aware UTC datetimes, None for null.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, cast

from jobs.rules.gold.rows import PartitionState
from jobs.rules.silver.rows import (
    BrokerSnapshot,
    ClusterSnapshot,
    PartitionElr,
    Reassignment,
    TopicConfig,
)
from metadata_source.kinds import KAFKA
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

_BESIDE = frozenset(table.full_name for table in silver.ENRICHMENTS.values())
"""The tables that tell of answers beside polls, which have times of their own."""

TIMES = "times"
"""See rows.PartitionState."""

partition_key = itemgetter("topic", "partition")
"""Topic and number of a partition, of any row about one."""


@dataclass(frozen=True)
class SilverRows:
    """Rows of the tables of silver that gold follows."""

    clusters: list[ClusterSnapshot] = field(default_factory=list)
    brokers: list[BrokerSnapshot] = field(default_factory=list)
    settings: list[TopicConfig] = field(default_factory=list)
    reassignments: list[Reassignment] = field(default_factory=list)
    partitions: list[PartitionState] = field(default_factory=list)
    elr: list[PartitionElr] = field(default_factory=list)

    def add(self, table: str, row: Row) -> None:
        """Take a row of any table."""
        if table in _FOLLOWED:
            getattr(self, _FOLLOWED[table]).append(row)


_FOLLOWED = {
    CLUSTERS: "clusters",
    BROKERS: "brokers",
    SETTINGS: "settings",
    REASSIGNMENTS: "reassignments",
    PARTITIONS: "partitions",
    PARTITION_ELR: "elr",
}


@dataclass(frozen=True)
class Poll:
    """The rows, by table, that began with a poll answered `at`, and those over by it: superseded,
    or ended.

    Within a poll, levels come first, then brokers, settings, reassignments, partitions, and ELR
    last. Settings, reassignments and ELR are of answers beside the poll, each with times of its
    own, mostly later ones. `is_migrating`: the cluster was on its way from ZooKeeper to KRaft.
    """

    poll_id: str
    at: datetime
    is_migrating: bool = False
    began: SilverRows = field(default_factory=SilverRows)
    over: SilverRows = field(default_factory=SilverRows)


@dataclass(frozen=True)
class GoldInput:
    """Rows of silver, by table, that began or ended in (done_poll, settled_poll], as they were at
    settled_poll.

    `context`: rows of silver.partition_snapshots that held all the time, of topics whose settings
    changed. `done_poll`: empty while nothing is done. `is_migrating`: as of a Poll, of all of them.
    """

    rows: Mapping[str, Sequence[Row]]
    done_poll: str
    settled_poll: str
    settled_at: datetime
    context: Sequence[PartitionState] = ()
    is_migrating: bool = False

    @classmethod
    def of(
        cls,
        rows: Mapping[str, Sequence[Row]],
        done_poll: str | None,
        poll: str,
        at: datetime,
        *,
        is_migrating: bool = False,
    ) -> "GoldInput":
        """The news up to the settled `poll` among `rows` of silver, by table, of any history."""
        done = done_poll or ""
        then = {
            table: [as_of(row, poll) for row in each if row["first_poll"] <= poll]
            for table, each in rows.items()
        }
        new = {
            table: [row for row in each if (row["superseded_poll"] or row["first_poll"]) > done]
            for table, each in then.items()
        }
        topics = {row["topic"] for row in new.get(SETTINGS, ())}
        held = [
            row
            for row in cast("list[PartitionState]", then.get(PARTITIONS, []))
            if row["first_poll"] <= done
            and row["superseded_poll"] is None
            and row["topic"] in topics
        ]
        return cls(new, done, poll, at, held, is_migrating)

    @property
    def known(self) -> list[PartitionState]:
        """The states of partitions that had begun by `done_poll`."""
        rows = cast("Sequence[PartitionState]", self.rows.get(PARTITIONS, ()))
        return [row for row in (*rows, *self.context) if row["first_poll"] <= self.done_poll]

    def polls(self) -> list[Poll]:
        """The polls by which something began or was over, in order."""
        found: dict[str, Poll] = {}

        def poll(poll_id: str, at: datetime) -> Poll:
            return found.setdefault(poll_id, Poll(poll_id, at, self.is_migrating))

        # A poll has the time of its own answer, where that told something.
        for table, rows in sorted(self.rows.items(), key=lambda of_table: of_table[0] in _BESIDE):
            for row in rows:
                first, last = row["first_poll"], row["superseded_poll"]
                if first > self.done_poll:
                    poll(first, row["valid_from"]).began.add(table, row)
                if last is not None:
                    poll(last, row["valid_to"]).over.add(table, row)
        return [found[poll_id] for poll_id in sorted(found)]


def as_of(row: Row, poll_id: str) -> Row:
    """A snapshot as it was at a poll: without an end that came later."""
    ended = row["superseded_poll"]
    return row if ended is None or ended <= poll_id else row | dict.fromkeys(silver.INTERVAL_ENDS)


@dataclass(frozen=True)
class Levels:
    """Finalized feature levels at a poll, None while unknown: they decide what leader epochs and
    settings mean.

    `lower`: of metadata.version at the poll and at the one before; between the two, either may have
    held. None too while a cluster migrates from ZooKeeper: then an ISR that shrinks raises the
    epoch, whatever the level says (PartitionChangeBuilder, Kafka 3.6 to 3.9). `kind`: of the
    cluster. `highest`: of metadata.version, as each broker has it.
    """

    metadata_version: int | None = None
    elr_version: int | None = None
    lower: int | None = None
    kind: str = KAFKA
    highest: int | None = None

    def at(self, poll: Poll) -> "Levels":
        """The levels at `poll`, by those at the poll before."""
        before, now, elr_version = self.metadata_version, self.metadata_version, self.elr_version
        kind, highest = self.kind, self.highest
        for row in poll.began.clusters:
            now, elr_version, kind = (
                row["metadata_version_level"],
                row["elr_version_level"],
                row["kind"],
            )
            highest = row["metadata_version_highest"]
        lower = None if before is None or now is None or poll.is_migrating else min(before, now)
        return Levels(now, elr_version, lower, kind, highest)


@dataclass(frozen=True)
class Elr:
    """Eligible and last known leaders (KIP-966), as told since the answer that came at `since`."""

    elr: Sequence[int]
    last_known_elr: Sequence[int]
    since: datetime


@dataclass
class Known:
    """The memory of a fold: the last known states of things in the tables that a history follows.

    `racks`: of the brokers that are listed. `min_isr`: min.insync.replicas by topic. By topic and
    partition, `adding`: the replicas that reassignments add; `elr`: where a list is not empty.
    """

    levels: Levels = field(default_factory=Levels)
    racks: dict[int, str | None] = field(default_factory=dict)
    min_isr: dict[str, int | None] = field(default_factory=dict)
    adding: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    elr: dict[tuple[str, int], Elr] = field(default_factory=dict)

    def follow(self, poll: Poll, *tables: str) -> None:
        """Take in what a poll told in these tables."""
        for table in tables:
            name, key, value = _KNOWN[table]
            known, rows = getattr(self, name), _FOLLOWED[table]
            for row in getattr(poll.over, rows):
                known.pop(key(row), None)
            for row in getattr(poll.began, rows):
                known[key(row)] = value(row)


_KNOWN: Mapping[str, tuple[str, Callable[[Row], Any], Callable[[Row], Any]]] = {
    BROKERS: ("racks", itemgetter("broker_id"), itemgetter("rack")),
    SETTINGS: ("min_isr", itemgetter("topic"), itemgetter("min_insync_replicas")),
    REASSIGNMENTS: ("adding", partition_key, itemgetter("adding_replicas")),
    PARTITION_ELR: (
        "elr",
        partition_key,
        lambda row: Elr(row["elr"], row["last_known_elr"], row["valid_from"]),
    ),
}
"""Table -> the field of Known, and of a row its key and value there."""


@dataclass(frozen=True)
class GoldResult:
    """The memory, new and changed rows by table, and when to fold again though nothing is new."""

    memory: Memory
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    deadline: datetime | None = None
