"""Who left in-sync replicas, for how long, and how bad it was meanwhile: the fold of one cluster.

It makes rows of gold.isr_changes, gold.isr_episodes and gold.broker_incidents, a poll at a time. A
row is live, and given to the next fold, while something of it may change or others need it
(schemas/gold.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.gold.bounds import Bounds
from jobs.rules.gold.causes import FAILED, GONE, Broker, give_sign, is_replica
from jobs.rules.gold.elections import failed_leaders
from jobs.rules.gold.isr import Partition, Thresholds
from jobs.rules.gold.news import (
    BROKERS,
    REASSIGNMENTS,
    SETTINGS,
    GoldInput,
    GoldResult,
    Known,
    Memory,
    Poll,
)
from jobs.rules.gold.rows import BrokerIncident, IsrChange, IsrEpisode, PartitionState
from jobs.rules.gold.together import Passes
from jobs.rules.memory import from_json, to_json
from schemas.gold import ISR_TABLES, LEVELS

ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS = TABLES = tuple(
    table.full_name for table in ISR_TABLES
)


def needed(live: Mapping[str, pa.Table], topics: pa.Array) -> dict[str, pa.Table]:
    """Live rows that may change something in a fold. `topics`: all with news or context."""
    found = dict(live)
    for table in {ISR_CHANGES, ISR_EPISODES} & live.keys():
        rows = live[table]
        is_needed = pc.is_in(rows["topic"], topics)
        if table == ISR_CHANGES:
            is_needed = pc.or_(
                is_needed, pc.or_(pc.is_null(rows["cause"]), pc.is_valid(rows["ended_poll"]))
            )
        found[table] = rows.filter(is_needed)
    return found


def fold(
    memory: Memory | None,
    live: Mapping[str, Sequence[Any]],
    news: GoldInput,
    thresholds: Thresholds,
) -> GoldResult:
    """Rows of the three tables that are new or changed, without updated_at.

    `memory`: what the last fold returned. `live`: live rows of the three tables, at least all of
    gold.broker_incidents; of gold.isr_episodes those of partitions in the news and in their
    context; of gold.isr_changes these too, those that have ended, and those without a cause.
    """
    cluster = _Cluster(from_json(Known, memory) or Known(), thresholds, live)
    for row in news.known:
        cluster.partition(row).state = row
    for poll in news.polls():
        cluster.step(poll)
    return cluster.result(news.settled_at)


class _Cluster:
    """A cluster between two polls: its partitions by topic and number, and its brokers."""

    def __init__(
        self, known: Known, thresholds: Thresholds, live: Mapping[str, Sequence[Any]]
    ) -> None:
        self._known, self._thresholds = known, thresholds
        self._partitions: defaultdict[str, defaultdict[int, Partition]] = defaultdict(
            lambda: defaultdict(Partition)
        )
        self._brokers: defaultdict[int, Broker] = defaultdict(Broker)
        self._passes = Passes()
        self._came: list[IsrChange] = []
        self._given = {row["id"]: row for table in TABLES for row in live.get(table, ())}

        def rows(table: str) -> list[Any]:
            return [row.copy() for row in sorted(live.get(table, ()), key=itemgetter("poll"))]

        changes: list[IsrChange] = rows(ISR_CHANGES)
        incidents: list[BrokerIncident] = rows(BROKER_INCIDENTS)
        self._episodes: list[IsrEpisode] = rows(ISR_EPISODES)
        for incident in incidents:
            self._brokers[incident["broker_id"]].incidents.append(incident)
        for episode in self._episodes:
            self.partition(episode).episodes[episode["level"]] = episode
        for absence in changes:
            self.partition(absence).absences.append(absence)
            self._brokers[absence["broker_id"]].load(absence)
            if absence["cause"] is None and absence["cause_due_at"] and is_replica(absence):
                self._passes.leave(absence)

    def partition(self, row: PartitionState | IsrChange | IsrEpisode) -> Partition:
        return self._partitions[row["topic"]][row["partition"]]

    def step(self, poll: Poll) -> None:
        self._known.levels = self._known.levels.at(poll)
        self._known.follow(poll, BROKERS, SETTINGS, REASSIGNMENTS)
        # A broker that left is listed by this poll or was by the one before.
        racks = {row["broker_id"]: row["rack"] for row in poll.over.brokers} | self._known.racks
        left: list[IsrChange] = []
        for row in poll.over.partitions:
            self._come_back(self.partition(row).end(row) if row["end_reason"] else ())
        for row in poll.began.partitions:
            came, ended, out = self.partition(row).follow(row, self._known, racks, self._thresholds)
            self._came += came
            self._come_back(ended)
            for absence in out:
                self._brokers[absence["broker_id"]].leave(absence)
            left += filter(is_replica, out)
        self._follow_levels(poll)
        self._give_signs(poll, left)

    def _come_back(self, ended: Iterable[IsrChange]) -> None:
        for absence in ended:
            self._brokers[absence["broker_id"]].come_back(absence)

    def _follow_levels(self, poll: Poll) -> None:
        """Look at partitions with a new state, and at those of topics whose settings changed."""
        settings = {
            row["topic"]: Bounds.of_end(row) for row in poll.over.settings if row["end_reason"]
        }
        settings |= {row["topic"]: Bounds.of_begin(row) for row in poll.began.settings}
        began = poll.began.partitions
        changed = [
            (self.partition(row), Bounds.of_begin(row), settings.get(row["topic"])) for row in began
        ]
        changed += [
            (each, of, None)
            for topic, of in settings.items()
            for each in self._partitions[topic].values()
        ]
        for partition, bounds, of_settings in changed:
            self._episodes += partition.follow_levels(self._known, bounds, of_settings)
            for broker in partition.out() if partition.episodes else ():
                incident = self._brokers[broker].incidents[-1]
                incident["worst_level"] = max(
                    incident["worst_level"], *partition.episodes, key=LEVELS.index
                )

    def _give_signs(self, poll: Poll, left: Sequence[IsrChange]) -> None:
        """Give absences, new ones and earlier ones, the signs that a poll shows of brokers."""
        signs = [(row["broker_id"], GONE) for row in poll.over.brokers if row["end_reason"]]
        signs += [
            (broker, FAILED) for broker in failed_leaders(poll.began.partitions, self._known.levels)
        ]
        for broker, sign in signs:
            self._brokers[broker].sign(sign, poll.at)
        for row in left:
            if row["broker_id"] not in self._known.racks:
                give_sign(row, GONE, poll.at)
            self._passes.leave(row)

    def result(self, settled_at: datetime) -> GoldResult:
        """The result, with the causes that are due, and which rows are live."""
        brokers, flaps, window = (
            self._brokers.values(),
            self._thresholds.flaps,
            self._thresholds.flap_window,
        )
        deadlines = [at for broker in brokers for at in broker.keep(settled_at, flaps, window)]
        rows: dict[str, Sequence[Any]] = {
            ISR_CHANGES: [*self._came, *(row for broker in brokers for row in broker.absences)],
            ISR_EPISODES: self._episodes,
            BROKER_INCIDENTS: [row for broker in brokers for row in broker.incidents],
        }
        changed = {
            table: [row for row in each if row != self._given.get(row["id"])]
            for table, each in rows.items()
        }
        return GoldResult(to_json(self._known), changed, min(deadlines, default=None))
