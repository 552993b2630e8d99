"""Who left in-sync replicas, for how long, and how bad it was meanwhile: the fold of one cluster.

It makes rows of gold.isr_changes, gold.isr_episodes and gold.broker_incidents, a poll at a time. A row is live, and
given to the next fold, while something of it may change or others need it:

- an absence while the broker is out, while its cause is not decided, while it counts for flapping, and while it is the
  one by which an incident that may go on has counted its partition;
- an episode while it lasts;
- an incident while it lasts, while a departure may still belong to it, and while the cause of one of its absences is
  not decided.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter

from jobs.rules.gold import causes, episodes, incidents
from jobs.rules.gold.bounds import Bounds, end
from jobs.rules.gold.elections import failed_leaders
from jobs.rules.gold.isr import LEFT, Changed, Partition, Thresholds, follow, is_replica
from jobs.rules.gold.known import Known
from jobs.rules.gold.news import BROKERS, PARTITIONS, REASSIGNMENTS, SETTINGS, Folded, Memory, News, Poll, Row
from jobs.rules.memory import to_json
from schemas.gold import ISR_TABLES, LEVELS

ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS = TABLES = tuple(table.full_name for table in ISR_TABLES)

_INSTANT = timedelta(microseconds=1)


def fold(memory: Memory | None, live: Mapping[str, Sequence[Row]], news: News, thresholds: Thresholds) -> Folded:
    """Rows of the three tables that are new or changed, without updated_at.

    `memory`: what the last fold returned. `live`: live rows of the three tables. The fold needs all of
    gold.broker_incidents; of gold.isr_episodes those of partitions in the news and in their context; of
    gold.isr_changes these too, those that have ended, and those without a cause. It passes over others.
    """
    cluster = _Cluster(Known.from_memory(memory), thresholds)
    cluster.load(live, news)
    for poll in news.polls():
        cluster.step(poll)
    deadline = cluster.finish(news.settled_at)
    return Folded(to_json(cluster.known), cluster.changed_rows(), deadline)


@dataclass
class _Cluster:
    """A cluster between two polls.

    `partitions`: by topic and number. `undecided`: absences by broker of which polls may still give signs. `incidents`:
    by broker, the oldest first. `rows`: all of them by table; `before`: as they were given, by id.
    """

    known: Known
    thresholds: Thresholds
    partitions: defaultdict[str, defaultdict[int, Partition]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Partition))
    )
    undecided: defaultdict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    incidents: defaultdict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    rows: dict[str, list[Row]] = field(default_factory=lambda: {table: [] for table in TABLES})
    before: dict[str, Row] = field(default_factory=dict)

    def load(self, live: Mapping[str, Sequence[Row]], news: News) -> None:
        """Take in what earlier folds left."""
        states = [*news.rows.get(PARTITIONS, ()), *news.context]
        touched = {(row["topic"], row["partition"]) for row in states}

        def is_touched(row: Row) -> bool:
            return (row["topic"], row["partition"]) in touched

        def is_needed(absence: Row) -> bool:
            return absence["cause"] is None or absence["ended_poll"] is not None or is_touched(absence)

        for row in self._copies(ISR_CHANGES, filter(is_needed, live.get(ISR_CHANGES, ()))):
            self._partition(row).absences.setdefault(row["broker_id"], []).append(row)
            if row["cause"] is None:
                self.undecided[row["broker_id"]].append(row)
        for row in self._copies(ISR_EPISODES, filter(is_touched, live.get(ISR_EPISODES, ()))):
            self._partition(row).episodes[row["level"]] = row
        for row in self._copies(BROKER_INCIDENTS, live.get(BROKER_INCIDENTS, ())):
            self.incidents[row["broker_id"]].append(row)
        for row in states:
            if row["first_poll"] <= (news.done_poll or ""):
                self._partition(row).state = row

    def step(self, poll: Poll) -> None:
        """Follow the next poll that told something new."""
        self.known.levels = self.known.levels.at(poll)
        self.known.follow(poll, BROKERS, SETTINGS, REASSIGNMENTS)
        # A broker that left is listed by this poll or was by the one before.
        racks = {row["broker_id"]: row["rack"] for row in poll.over[BROKERS]} | self.known.racks
        settings = _settings_changed(poll)
        ended = [absence for row in poll.over[PARTITIONS] if row["end_reason"] for absence in self._end(row)]
        left: list[Row] = []
        touched = []
        for row in poll.began[PARTITIONS]:
            changed = self._begin(row, racks, settings.get(row["topic"]))
            ended += changed.ended
            left += filter(is_replica, changed.left)
            touched.append(self._partition(row))
        for topic, bounds in settings.items():
            for partition in self.partitions[topic].values():
                if partition.state is not None:
                    self._mark_by_min_isr(partition, partition.state, bounds)
                    touched.append(partition)
        self._give_signs_of_brokers(poll, left)
        self._follow_incidents(ended, left, touched)

    def _end(self, row: Row) -> list[Row]:
        """End what lasts of a partition that ended; returns the absences."""
        partition, bounds = self._partition(row), Bounds.of_end(row)
        partition.state = None
        for level in LEVELS:
            episodes.end_one(partition, level, bounds, row["end_reason"])
        ended = list(partition.out().values())
        for absence in ended:
            end(absence, bounds)
            absence["end_reason"] = row["end_reason"]
        return ended

    def _begin(self, row: Row, racks: Mapping[int, str | None], settings: Bounds | None) -> Changed:
        """Follow a state that began."""
        partition, bounds = self._partition(row), Bounds.of_begin(row)
        partition.state = row
        adding = self.known.adding.get((row["topic"], row["partition"]), ())
        changed = follow(row, partition, racks, adding, self.thresholds)
        self.rows[ISR_CHANGES] += changed.came + changed.left
        for absence in filter(is_replica, changed.left):
            self.undecided[absence["broker_id"]].append(absence)
        of_partition = [absence for rows in partition.absences.values() for absence in rows]
        causes.give_signs_of_state([each for each in of_partition if causes.is_open(each, row["valid_from"])], row)
        at = episodes.by_state(row, is_any_out=bool(partition.out()))
        self.rows[ISR_EPISODES] += episodes.mark(partition, at, row, bounds)
        self._mark_by_min_isr(partition, row, bounds.merged(settings))
        return changed

    def _mark_by_min_isr(self, partition: Partition, state: Row, bounds: Bounds) -> None:
        setting, level = self.known.min_isr.get(state["topic"]), self.known.levels.metadata_version
        min_isr = episodes.effective_min_isr(setting, len(state["replicas"]), level)
        at = episodes.by_min_isr(state, min_isr)
        self.rows[ISR_EPISODES] += episodes.mark(partition, at, state, bounds, min_isr=min_isr)

    def _give_signs_of_brokers(self, poll: Poll, left: Sequence[Row]) -> None:
        """Give absences, those that began with a poll and earlier ones, the signs that the poll shows of brokers."""
        for row in poll.over[BROKERS]:
            if row["end_reason"]:
                causes.give_sign(self._undecided_of(row["broker_id"], poll.at), causes.GONE)
        for broker in failed_leaders(poll.began[PARTITIONS], self.known.levels):
            causes.give_sign(self._undecided_of(broker, poll.at), causes.FAILED)
        causes.give_sign([each for each in left if each["broker_id"] not in self.known.racks], causes.GONE)
        causes.tell_together([each for each in left if each["change"] == LEFT], left)

    def _undecided_of(self, broker: int, at: datetime) -> list[Row]:
        rows = self.undecided[broker] = [row for row in self.undecided[broker] if causes.is_open(row, at)]
        return rows

    def _follow_incidents(self, ended: Iterable[Row], left: Iterable[Row], touched: Iterable[Partition]) -> None:
        for broker, rows in _by_broker(ended):
            incidents.leave(self.incidents[broker][-1], rows)
        for broker, rows in _by_broker(left):
            of_broker = self.incidents[broker]
            if not of_broker or not incidents.may_go_on(of_broker[-1], rows[0]["began_before"]):
                of_broker.append(incidents.begin(rows[0]))
                self.rows[BROKER_INCIDENTS].append(of_broker[-1])
            incidents.join(of_broker[-1], rows, sum(not self._is_counted(row, of_broker[-1]) for row in rows))
        for partition in touched:
            for broker in partition.out() if partition.episodes else ():
                incident = self.incidents[broker][-1]
                incident["worst_level"] = max(incident["worst_level"], *partition.episodes, key=LEVELS.index)

    def _is_counted(self, absence: Row, incident: Row) -> bool:
        """Whether the incident has counted the partition of its newest absence by an earlier one."""
        of_broker = self._partition(absence).absences[absence["broker_id"]]
        for row in islice(reversed(of_broker), 1, None):
            if row["poll"] < incident["poll"]:
                return False
            if is_replica(row) and row["topic_id"] == absence["topic_id"]:
                return True
        return False

    def finish(self, settled_at: datetime) -> datetime | None:
        """Decide the causes that are due, and which rows are live; returns when that has to be looked at again."""
        deadlines: list[datetime] = []
        waits: set[str] = set()
        of_partitions = (partition for of_topic in self.partitions.values() for partition in of_topic.values())
        for broker, absences in (each for partition in of_partitions for each in partition.absences.items()):
            for absence in absences:
                if absence["cause"] is not None:
                    continue
                incident = next(each for each in reversed(self.incidents[broker]) if each["poll"] <= absence["poll"])
                if absence["cause_due_at"] < settled_at:
                    absence["cause"] = causes.cause(absence)
                    incident["causes"] = sorted({*incident["causes"], absence["cause"]})
                else:
                    waits.add(incident["id"])
                    deadlines.append(absence["cause_due_at"] + _INSTANT)
            deadlines += self._keep(broker, absences, settled_at)
        for incident in (each for of_broker in self.incidents.values() for each in of_broker):
            may_go_on = incidents.may_go_on(incident, settled_at)
            incident["is_live"] = may_go_on or incident["id"] in waits
            if may_go_on and incident["ended_before"] is not None:
                deadlines.append(incidents.joined_until(incident))
        return min(deadlines, default=None)

    def _keep(self, broker: int, absences: Iterable[Row], settled_at: datetime) -> Iterator[datetime]:
        """Say which absences of a broker from one ISR are live; tells until when those are that count for flapping."""
        last = self.incidents[broker][-1:]
        since = [incident["poll"] for incident in last if incidents.may_go_on(incident, settled_at)]
        counted: set[str | None] = set()
        for absence in absences:
            is_of_incident = bool(since) and absence["poll"] >= since[0] and is_replica(absence)
            counts = is_of_incident and absence["topic_id"] not in counted
            if counts:
                counted.add(absence["topic_id"])
            absence["is_live"] = counts or absence["ended_poll"] is None or absence["cause"] is None
            flaps_until = absence["began_before"] + self.thresholds.flap_window
            if not absence["is_live"] and absence["change"] == LEFT and settled_at < flaps_until:
                absence["is_live"] = True
                yield flaps_until

    def changed_rows(self) -> dict[str, list[Row]]:
        """The rows that are new or changed, by table."""
        return {table: [row for row in rows if row != self.before.get(row["id"])] for table, rows in self.rows.items()}

    def _copies(self, table: str, rows: Iterable[Row]) -> list[Row]:
        """Rows to change, the oldest first."""
        given = sorted(rows, key=itemgetter("poll"))
        self.before |= {row["id"]: row for row in given}
        copies = [row.copy() for row in given]
        self.rows[table] += copies
        return copies

    def _partition(self, row: Row) -> Partition:
        return self.partitions[row["topic"]][row["partition"]]


def _settings_changed(poll: Poll) -> dict[str, Bounds]:
    """The topics whose settings changed with a poll, and when."""
    found: dict[str, Bounds] = {}
    ended = [(row["topic"], Bounds.of_end(row)) for row in poll.over[SETTINGS] if row["end_reason"]]
    began = [(row["topic"], Bounds.of_begin(row)) for row in poll.began[SETTINGS]]
    for topic, bounds in ended + began:
        found[topic] = bounds.merged(found.get(topic))
    return found


def _by_broker(absences: Iterable[Row]) -> list[tuple[int, list[Row]]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for absence in absences:
        found[absence["broker_id"]].append(absence)
    return sorted(found.items())
