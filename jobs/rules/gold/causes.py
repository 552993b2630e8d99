"""Brokers that are out of ISRs: why, inferred, and which absences are one incident (rows of
gold.broker_incidents).

An absence is a row of gold.isr_changes. On a controlled stop the ISR shrinks at once, while the
broker stays listed for another half second. So a cause is decided when a look-ahead is over, by the
signs that polls gave until then.

An incident is a stretch in which some ISR lacked the broker. Stretches that are less than a minute
apart are one.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end, reopen
from jobs.rules.gold.news import partition_key
from jobs.rules.gold.rows import BrokerIncident, IsrChange
from jobs.rules.ids import row_id
from schemas.gold import LEVELS

LOOK_AHEAD = timedelta(seconds=15)
LOOK_AHEAD_POLLS = 2
MERGED_WITHIN = timedelta(seconds=60)
_INSTANT = timedelta(microseconds=1)

LEFT, INITIALLY_OUT = "left", "initially_out"
"""How absences begin."""

# Signs.
GONE = "gone"  # The broker was not listed.
OFFLINE = "offline"  # It was among the partition's offline replicas.
# It lost a leadership as only a failed broker does: it may be back before a poll misses it.
FAILED = "failed"
BACK = "back"  # A later poll showed it in the ISR again.
TOGETHER = "together"  # Other brokers left ISRs of the same leader at the same moment.


def due_at(began_before: datetime, interval_ms: int | None) -> datetime:
    """The time until which signs count: two intervals between polls or 15 s, whichever is more."""
    return began_before + max(
        LOOK_AHEAD, timedelta(milliseconds=LOOK_AHEAD_POLLS * (interval_ms or 0))
    )


def give_sign(absence: IsrChange, sign: str, at: datetime) -> None:
    """Note what a poll showed that was answered `at`, unless the cause is known or due by then."""
    due_at = absence["cause_due_at"]
    if absence["cause"] is None and due_at is not None and at <= due_at:
        absence["signs"] = sorted({*(absence["signs"] or ()), sign})


def cause(absence: IsrChange) -> str:
    """The cause by all signs: broker_down | log_dir_failed | leader_stalled | lagging.

    A replica is offline if its broker is fenced, and so not listed, or if its log directory failed
    (``KRaftMetadataCache.isReplicaOffline``): a broker that stays listed lost a directory, which
    only a restart brings back. If the replica is back without one, brokers and topics of an answer
    were of two images. A leader that was hung blames followers that did nothing: they leave at
    once, and are back.
    """
    signs = set(absence["signs"] or ())
    if OFFLINE in signs and not signs & {GONE, BACK}:
        return "log_dir_failed"
    if signs & {GONE, OFFLINE, FAILED}:
        return "broker_down"
    is_alone = absence["isr"] == [absence["leader"]]
    return "leader_stalled" if is_alone and signs >= {TOGETHER, BACK} else "lagging"


def is_replica(absence: IsrChange) -> bool:
    """Whether the broker is a replica still. One that a reassignment took off lacks nowhere."""
    return absence["broker_id"] in (absence["replicas"] or ())


@dataclass
class Broker:
    """A broker with its absences and its incidents, the oldest first.

    `counted`: by topic and number, the partitions that the last incident counts, each with the
    absence that tells: the first one, or the first with a topic id. One that gets an id (Kafka 2.8)
    is the same; one of another id is another.
    """

    absences: list[IsrChange] = field(default_factory=list)
    incidents: list[BrokerIncident] = field(default_factory=list)
    counted: dict[Any, IsrChange] = field(default_factory=dict)
    _signed: dict[str, int] = field(default_factory=dict)

    def load(self, absence: IsrChange) -> None:
        """Take in an absence that the incidents count already."""
        self.absences.append(absence)
        if is_replica(absence) and self.incidents and absence["poll"] >= self.incidents[-1]["poll"]:
            known = self.counted.get(partition_key(absence))
            if known is None or known["topic_id"] != absence["topic_id"]:
                self.counted[partition_key(absence)] = absence

    def sign(self, sign: str, at: datetime) -> None:
        """Give all absences a sign. Those that were given it before, or were due by then, are
        passed over: in the controllers' log each record of a broker that failed is a sign.
        """
        for number in range(self._signed.get(sign, 0), len(self.absences)):
            give_sign(self.absences[number], sign, at)
        self._signed[sign] = len(self.absences)

    def leave(self, absence: IsrChange) -> None:
        """Add an absence that begins; count it in the last incident, or begin one with it."""
        if is_replica(absence):
            if not self.incidents or not _may_continue(self.incidents[-1], absence["began_before"]):
                self.incidents.append(_incident(absence))
                self.counted = {}
            incident = self.incidents[-1]
            known = self.counted.get(partition_key(absence))
            incident["partitions"] += known is None or known["topic_id"] not in (
                None,
                absence["topic_id"],
            )
            incident["partitions_out"] += 1
            incident["last_out_before"] = absence["began_before"]
            reopen(incident)
        self.load(absence)

    def come_back(self, absence: IsrChange) -> None:
        """Take an absence that ended off the last incident: with the last of them it ends."""
        incident = self.incidents[-1]
        incident["partitions_out"] -= 1
        if incident["partitions_out"] == 0:
            end(incident, Bounds.of_ended(absence))

    def keep(self, at: datetime, flaps: int, flap_window: timedelta) -> Iterator[datetime]:
        """Decide the causes that are due at a time, and which rows are live; tells when to look at
        them again.

        `flaps`: a departure is flapping if so many, itself among them, are less than `flap_window`
        old.
        """
        later: Counter[Any] = Counter()
        for incident in self.incidents:
            incident["is_live"] = _may_continue(incident, at)
            if incident["is_live"] and incident["ended_before"] is not None:
                yield incident["ended_before"] + MERGED_WITHIN
        for absence in reversed(self.absences):
            due_at = absence["cause_due_at"]
            if absence["cause"] is None and due_at is not None:
                incident = next(
                    each for each in reversed(self.incidents) if each["poll"] <= absence["poll"]
                )
                if due_at < at:
                    decided = absence["cause"] = cause(absence)
                    incident["causes"] = sorted({*incident["causes"], decided})
                else:
                    incident["is_live"] = True
                    yield due_at + _INSTANT
            # An incident counts a partition once, so a later round has to know by which absence.
            is_counted = self.counted.get(partition_key(absence)) is absence and _may_continue(
                self.incidents[-1], at
            )
            absence["is_live"] = (
                absence["ended_poll"] is None or absence["cause"] is None or is_counted
            )
            if absence["change"] == LEFT:
                # The next departure is one of them: of those before it only the newest can make it
                # flapping.
                later[absence["topic"], absence["partition"]] += 1
                flaps_until = absence["began_before"] + flap_window
                is_newest = later[absence["topic"], absence["partition"]] < flaps
                if not absence["is_live"] and is_newest and at < flaps_until:
                    absence["is_live"] = True
                    yield flaps_until


def _may_continue(incident: BrokerIncident, at: datetime) -> bool:
    """Whether an absence that a poll shows, answered at `at` or later, may belong to it."""
    return incident["ended_before"] is None or at < incident["ended_before"] + MERGED_WITHIN


def _incident(first: IsrChange) -> BrokerIncident:
    """The incident that begins with an absence, before that is counted."""
    return {
        "id": row_id(first["cluster_id"], first["broker_id"], first["poll"]),
        "cluster_id": first["cluster_id"],
        "cluster": first["cluster"],
        "broker_id": first["broker_id"],
        "rack": first["rack"],
        "poll": first["poll"],
        "source": first["source"],
        "began_after": first["began_after"],
        "began_before": first["began_before"],
        **NOT_ENDED,
        "partitions": 0,
        "partitions_out": 0,
        "first_out_before": first["began_before"],
        "last_out_before": first["began_before"],
        "causes": [],
        "worst_level": LEVELS[0],
        "is_live": True,
    }
