"""Brokers that are out of ISRs: why, inferred, and which absences are one incident (rows of gold.broker_incidents).

An absence is a row of gold.isr_changes. On a controlled stop the ISR shrinks at once, while the broker stays listed for
another half second. So a cause is decided when a look-ahead is over, by the signs that polls gave until then.

An incident is a stretch in which some ISR lacked the broker. Stretches that are less than a minute apart are one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end
from jobs.rules.gold.news import Row
from jobs.rules.ids import row_id
from schemas.gold import LEVELS

LOOK_AHEAD = timedelta(seconds=15)
LOOK_AHEAD_POLLS = 2
MERGED_WITHIN = timedelta(seconds=60)
_INSTANT = timedelta(microseconds=1)
_INCIDENT = NOT_ENDED | {"partitions": 0, "partitions_out": 0, "causes": [], "worst_level": LEVELS[0], "is_live": True}

# Signs.
GONE = "gone"  # The broker was not listed.
OFFLINE = "offline"  # It was among the partition's offline replicas.
FAILED = "failed"  # It lost a leadership as only a failed broker does: it may be back before a poll misses it.
BACK = "back"  # A later poll showed it in the ISR again.
TOGETHER = "together"  # Other brokers left ISRs of the same leader in the same poll.


def due_at(began_before: datetime, interval_ms: int | None) -> datetime:
    """The time until which signs count: two intervals between polls or 15 s, whichever is more."""
    return began_before + max(LOOK_AHEAD, timedelta(milliseconds=LOOK_AHEAD_POLLS * (interval_ms or 0)))


def give_sign(absence: Row, sign: str) -> None:
    """Note in an absence what a poll showed."""
    absence["signs"] = sorted({*absence["signs"], sign})


def cause(absence: Row) -> str:
    """The cause by all signs: broker_down | leader_stalled | lagging.

    A leader that was hung blames followers that did nothing: they leave at once, and are back.
    """
    signs = set(absence["signs"])
    if signs & {GONE, OFFLINE, FAILED}:
        return "broker_down"
    is_alone = absence["isr"] == [absence["leader"]]
    return "leader_stalled" if is_alone and signs >= {TOGETHER, BACK} else "lagging"


@dataclass
class Broker:
    """A broker between two polls, with its absences as a replica.

    `undecided`: absences of which polls may still give signs. `incidents`: the oldest first. `counted`: the partitions
    that the last incident counts, each with the first of its absences.
    """

    undecided: list[Row] = field(default_factory=list)
    incidents: list[Row] = field(default_factory=list)
    counted: dict[Any, Row] = field(default_factory=dict)

    def load(self, absence: Row) -> None:
        """Take in an absence, the oldest first, after the incidents."""
        if absence["cause"] is None:
            self.undecided.append(absence)
        if self.incidents and absence["poll"] >= self.incidents[-1]["poll"]:
            self.counted.setdefault(_partition(absence), absence)

    def give_sign(self, sign: str, at: datetime) -> None:
        """Note what a poll that was answered `at` showed of the broker."""
        self.decide(at)
        for absence in self.undecided:
            give_sign(absence, sign)

    def decide(self, at: datetime) -> None:
        """Decide the causes of absences whose look-ahead was over before `at`."""
        for absence in self.undecided:
            if absence["cause_due_at"] < at:
                absence["cause"] = cause(absence)
                incident = self._incident(absence)
                incident["causes"] = sorted({*incident["causes"], absence["cause"]})
        self.undecided = [absence for absence in self.undecided if absence["cause"] is None]

    def leave(self, absence: Row) -> list[Row]:
        """Add an absence that begins to the last incident, or to one that begins and is returned."""
        begun = []
        if not self.incidents or not _may_continue(self.incidents[-1], absence["began_before"]):
            begun, self.counted = [_incident(absence)], {}
            self.incidents += begun
        incident = self.incidents[-1]
        incident["partitions"] += _partition(absence) not in self.counted
        incident["partitions_out"] += 1
        incident |= {"last_out_before": absence["began_before"], **NOT_ENDED}
        self.load(absence)
        return begun

    def come_back(self, absence: Row) -> None:
        """Take an absence that ended off the last incident: with the last of them it ends."""
        incident = self.incidents[-1]
        incident["partitions_out"] -= 1
        if incident["partitions_out"] == 0:
            end(incident, Bounds(absence["ended_poll"], absence["ended_after"], absence["ended_before"]))

    def is_counted_by(self, absence: Row, at: datetime) -> bool:
        """Whether an incident that may continue after `at` counts a partition by this absence."""
        return self.counted.get(_partition(absence)) is absence and _may_continue(self.incidents[-1], at)

    def keep(self, at: datetime) -> Iterator[datetime]:
        """Say which incidents are live at a time; tells when that, or a cause, has to be looked at again."""
        waiting = [self._incident(absence)["id"] for absence in self.undecided]
        yield from (absence["cause_due_at"] + _INSTANT for absence in self.undecided)
        for incident in self.incidents:
            may_continue = _may_continue(incident, at)
            incident["is_live"] = may_continue or incident["id"] in waiting
            if may_continue and incident["ended_before"] is not None:
                yield incident["ended_before"] + MERGED_WITHIN

    def _incident(self, absence: Row) -> Row:
        return next(each for each in reversed(self.incidents) if each["poll"] <= absence["poll"])


def _may_continue(incident: Row, at: datetime) -> bool:
    """Whether an absence that a poll shows, answered at `at` or later, may belong to it."""
    return incident["ended_before"] is None or at < incident["ended_before"] + MERGED_WITHIN


def _partition(absence: Row) -> tuple[Any, ...]:
    return absence["topic"], absence["topic_id"], absence["partition"]


def _incident(first: Row) -> Row:
    """The incident that begins with an absence, before that is counted."""
    names = ("cluster_id", "cluster", "broker_id", "rack", "poll", "began_after", "began_before")
    id_ = row_id(first["cluster_id"], first["broker_id"], first["poll"])
    return {"id": id_, **{name: first[name] for name in names}, **_INCIDENT, "first_out_before": first["began_before"]}
