"""Who left in-sync replicas, for how long, and how bad it was meanwhile: the fold of one cluster.

It makes rows of gold.isr_changes, gold.isr_episodes and gold.broker_incidents, a poll at a time. A row is live, and
given to the next fold, while something of it may change or others need it:

- an absence while the broker is out, while its cause is not decided, while it counts for flapping, and while it is the
  one by which an incident that may continue has counted its partition;
- an episode while it lasts;
- an incident while it lasts, while a departure may still belong to it, and while the cause of one of its absences is
  not decided.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from jobs.rules.gold import causes
from jobs.rules.gold.bounds import Bounds
from jobs.rules.gold.elections import failed_leaders
from jobs.rules.gold.isr import LEFT, Partition, Thresholds, effective_min_isr, is_replica
from jobs.rules.gold.news import BROKERS, PARTITIONS, REASSIGNMENTS, SETTINGS, Folded, Known, Memory, News, Poll, Row
from jobs.rules.memory import to_json
from schemas.gold import ISR_TABLES, LEVELS

ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS = TABLES = tuple(table.full_name for table in ISR_TABLES)


def needed(live: Mapping[str, pa.Table], topics: pa.Array) -> dict[str, pa.Table]:
    """Live rows by table, without those that change nothing in a fold. `topics`: all with news or context."""
    found = dict(live)
    for table in {ISR_CHANGES, ISR_EPISODES} & live.keys():
        rows = live[table]
        is_needed = pc.is_in(rows["topic"], topics)
        if table == ISR_CHANGES:
            is_needed = pc.or_(is_needed, pc.or_(pc.is_null(rows["cause"]), pc.is_valid(rows["ended_poll"])))
        found[table] = rows.filter(is_needed)
    return found


def fold(memory: Memory | None, live: Mapping[str, Sequence[Row]], news: News, thresholds: Thresholds) -> Folded:
    """Rows of the three tables that are new or changed, without updated_at.

    `memory`: what the last fold returned. `live`: live rows of the three tables, at least all of gold.broker_incidents;
    of gold.isr_episodes those of partitions in the news and in their context; of gold.isr_changes these too, those that
    have ended, and those without a cause.
    """
    cluster = _Cluster(Known.from_memory(memory), thresholds, live)
    for row in (*news.rows.get(PARTITIONS, ()), *news.context):
        if row["first_poll"] <= (news.done_poll or ""):
            cluster.partition(row).state = row
    for poll in news.polls():
        cluster.step(poll)
    deadline = cluster.keep(news.settled_at)
    return Folded(to_json(cluster.known), cluster.changed_rows(), deadline)


class _Cluster:
    """A cluster between two polls: its partitions by topic and number, its brokers, and all rows by table."""

    def __init__(self, known: Known, thresholds: Thresholds, live: Mapping[str, Sequence[Row]]) -> None:
        self.known, self._thresholds = known, thresholds
        self._partitions: defaultdict[str, defaultdict[int, Partition]] = defaultdict(lambda: defaultdict(Partition))
        self._brokers: defaultdict[int, causes.Broker] = defaultdict(causes.Broker)
        given = {table: sorted(live.get(table, ()), key=itemgetter("poll")) for table in TABLES}
        self._given = {row["id"]: row for of_table in given.values() for row in of_table}
        self._rows = {table: [row.copy() for row in of_table] for table, of_table in given.items()}
        for row in self._rows[BROKER_INCIDENTS]:
            self._brokers[row["broker_id"]].incidents.append(row)
        for row in self._rows[ISR_EPISODES]:
            self.partition(row).episodes[row["level"]] = row
        for row in self._rows[ISR_CHANGES]:
            self.partition(row).absences.append(row)
            if is_replica(row):
                self._brokers[row["broker_id"]].load(row)

    def partition(self, row: Row) -> Partition:
        """The partition that a row is about."""
        return self._partitions[row["topic"]][row["partition"]]

    def step(self, poll: Poll) -> None:
        """Follow the next poll that told something new."""
        self.known.levels = self.known.levels.at(poll)
        self.known.follow(poll, BROKERS, SETTINGS, REASSIGNMENTS)
        # A broker that left is listed by this poll or was by the one before.
        racks = {row["broker_id"]: row["rack"] for row in poll.over[BROKERS]} | self.known.racks
        settings = _settings_changed(poll)
        left: list[Row] = []
        for row in poll.over[PARTITIONS]:
            self._come_back(self.partition(row).end(row) if row["end_reason"] else ())
        for row in poll.began[PARTITIONS]:
            adding = self.known.adding.get((row["topic"], row["partition"]), ())
            came, ended, out = self.partition(row).follow(row, racks, adding, self._thresholds)
            self._rows[ISR_CHANGES] += came + out
            self._come_back(ended)
            for absence in filter(is_replica, out):
                self._rows[BROKER_INCIDENTS] += self._brokers[absence["broker_id"]].leave(absence)
                left.append(absence)
            self._follow_levels(self.partition(row), Bounds.of_begin(row), settings.get(row["topic"]))
        for topic, bounds in settings.items():
            for partition in self._partitions[topic].values():
                self._follow_levels(partition, bounds)
        self._give_signs(poll, left)

    def _come_back(self, ended: Iterable[Row]) -> None:
        for absence in ended:
            self._brokers[absence["broker_id"]].come_back(absence)

    def _follow_levels(self, partition: Partition, bounds: Bounds, settings: Bounds | None = None) -> None:
        if (state := partition.state) is None:
            return
        setting, level = self.known.min_isr.get(state["topic"]), self.known.levels.metadata_version
        min_isr = effective_min_isr(setting, len(state["replicas"]), level)
        self._rows[ISR_EPISODES] += partition.follow_levels(state, bounds, settings, min_isr)
        for broker in partition.out() if partition.episodes else ():
            incident = self._brokers[broker].incidents[-1]
            incident["worst_level"] = max(incident["worst_level"], *partition.episodes, key=LEVELS.index)

    def _give_signs(self, poll: Poll, left: Sequence[Row]) -> None:
        """Give absences, those that begin with a poll and earlier ones, the signs that the poll shows of brokers."""
        for row in poll.over[BROKERS]:
            if row["end_reason"]:
                self._brokers[row["broker_id"]].give_sign(causes.GONE, poll.at)
        for broker in failed_leaders(poll.began[PARTITIONS], self.known.levels):
            self._brokers[broker].give_sign(causes.FAILED, poll.at)
        followers = {(row["leader"], row["broker_id"]) for row in left if row["change"] == LEFT}
        led = Counter(leader for leader, _ in followers)
        for row in left:
            if row["broker_id"] not in self.known.racks:
                causes.give_sign(row, causes.GONE)
            if led[row["leader"]] > 1:
                causes.give_sign(row, causes.TOGETHER)

    def keep(self, settled_at: datetime) -> datetime | None:
        """Decide the causes that are due, and which rows are live; returns when that has to be looked at again."""
        deadlines: list[datetime] = []
        for broker in self._brokers.values():
            broker.decide(settled_at)
            deadlines += broker.keep(settled_at)
        for row in self._rows[ISR_CHANGES]:
            if row["signs"] is None:  # A broker came.
                continue
            is_open = row["ended_poll"] is None or row["cause"] is None
            row["is_live"] = is_open or self._brokers[row["broker_id"]].is_counted_by(row, settled_at)
            flaps_until = row["began_before"] + self._thresholds.flap_window
            if not row["is_live"] and row["change"] == LEFT and settled_at < flaps_until:
                row["is_live"] = True
                deadlines.append(flaps_until)
        return min(deadlines, default=None)

    def changed_rows(self) -> dict[str, list[Row]]:
        """The rows that are new or changed, by table."""
        return {table: [row for row in rows if row != self._given.get(row["id"])] for table, rows in self._rows.items()}


def _settings_changed(poll: Poll) -> dict[str, Bounds]:
    """The topics whose settings changed with a poll, and when."""
    changed = [(row["topic"], Bounds.of_end(row)) for row in poll.over[SETTINGS] if row["end_reason"]]
    found: dict[str, Bounds] = {}
    for topic, bounds in changed + [(row["topic"], Bounds.of_begin(row)) for row in poll.began[SETTINGS]]:
        found[topic] = bounds.merged(found.get(topic))
    return found
