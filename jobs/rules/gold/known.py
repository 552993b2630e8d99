"""The memory of folds of gold, of one cluster, besides its live rows: the last answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from jobs.rules.gold.news import BROKERS, CLUSTERS, PARTITION_ELR, REASSIGNMENTS, SETTINGS, Memory, Poll, Row
from jobs.rules.memory import from_json

Partition = tuple[str, int]
"""Topic and number of a partition."""


@dataclass(frozen=True)
class Levels:
    """Finalized feature levels at a poll, None while unknown: they decide what leader epochs and settings mean.

    `lower`: the lower level of metadata.version at the poll and at the one before: between the two, either may have
    held.
    """

    metadata_version: int | None = None
    elr_version: int | None = None
    lower: int | None = None

    def at(self, poll: Poll) -> "Levels":
        """The levels at `poll`, by those at the poll before."""
        before, now, elr_version = self.metadata_version, self.metadata_version, self.elr_version
        for row in poll.began[CLUSTERS]:
            now, elr_version = row["metadata_version_level"], row["elr_version_level"]
        return Levels(now, elr_version, lower=None if before is None or now is None else min(before, now))


@dataclass
class Known:
    """The last known states of things in the tables that a history follows.

    `racks`: of the brokers that are listed. `min_isr`: min.insync.replicas by topic. `adding`: the replicas that
    reassignments add. `elr`: eligible and last known leaders (KIP-966) of partitions whose lists are not empty.
    """

    levels: Levels = field(default_factory=Levels)
    racks: dict[int, str | None] = field(default_factory=dict)
    min_isr: dict[str, int | None] = field(default_factory=dict)
    adding: dict[Partition, list[int]] = field(default_factory=dict)
    elr: dict[Partition, dict[str, list[int]]] = field(default_factory=dict)

    @staticmethod
    def from_memory(memory: Memory | None) -> "Known":
        """Read a fold's memory; None is the memory before the first round."""
        known: Known = from_json(Known, memory) or Known()
        return known

    def follow(self, poll: Poll, *tables: str) -> None:
        """Take in what a poll told in these tables."""
        for table in tables:
            name, key, value = _TOLD[table]
            known = getattr(self, name)
            for row in poll.over[table]:
                known.pop(key(row), None)
            for row in poll.began[table]:
                known[key(row)] = value(row)


_TOLD: Mapping[str, tuple[str, Callable[[Row], Any], Callable[[Row], Any]]] = {
    BROKERS: ("racks", itemgetter("broker_id"), itemgetter("rack")),
    SETTINGS: ("min_isr", itemgetter("topic"), itemgetter("min_insync_replicas")),
    REASSIGNMENTS: ("adding", itemgetter("topic", "partition"), itemgetter("adding_replicas")),
    PARTITION_ELR: (
        "elr",
        itemgetter("topic", "partition"),
        lambda row: {name: row[name] for name in ("elr", "last_known_elr")},
    ),
}
"""Table -> the field of Known, and of a row its key and value there."""
