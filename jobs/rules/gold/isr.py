"""Brokers that leave and rejoin in-sync replicas: rows of gold.isr_changes.

ISRs are compared as sets, members and not sizes. A replica is out from the poll in which it left the ISR, or in which
its partition was first seen without it, until it is back, is no replica any more, or the partition is gone. So a
replica that a reassignment adds is not out before it has been in: it never left.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from jobs.rules.gold import causes
from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end, event
from jobs.rules.gold.news import Row

LEFT, INITIALLY_OUT, REJOINED, JOINED = "left", "initially_out", "rejoined", "joined"
REMOVED = "removed"
REASSIGNMENT = "reassignment"

_OF_STATE = ("leader", "prev_leader", "isr", "prev_isr", "replicas")
_UNTOLD = dict.fromkeys(("cause", "cause_due_at", "signs", "is_flapping", "end_reason")) | NOT_ENDED


class Thresholds(Protocol):
    """A broker that leaves an ISR `flaps` times within `flap_window` is flapping (jobs.common.config.Thresholds)."""

    flaps: int
    flap_window: timedelta


@dataclass
class Partition:
    """A partition between two polls.

    `absences`: those from its ISR that matter still, by broker, the oldest first; only the last of a broker may last.
    `episodes`: those that last, by level. `state`: its row of silver, of those in the news and in their context.
    """

    absences: dict[int, list[Row]] = field(default_factory=dict)
    episodes: dict[str, Row] = field(default_factory=dict)
    state: Row | None = None

    def out(self) -> dict[int, Row]:
        """The brokers that are out now, each with its absence."""
        return {broker: rows[-1] for broker, rows in self.absences.items() if rows[-1]["ended_poll"] is None}


@dataclass
class Changed:
    """The changes by one state of a partition: rows of brokers that came, absences that ended, and that began."""

    came: list[Row] = field(default_factory=list)
    ended: list[Row] = field(default_factory=list)
    left: list[Row] = field(default_factory=list)


def is_replica(absence: Row) -> bool:
    """Whether the broker is a replica still. One that a reassignment took off the list is lacking nowhere."""
    return absence["broker_id"] in absence["replicas"]


def follow(
    state: Row,
    partition: Partition,
    racks: Mapping[int, str | None],
    adding: Collection[int],
    thresholds: Thresholds,
) -> Changed:
    """The changes of a state against the one before; its absences are added to those of the partition.

    `state`: a row of silver.partition_snapshots that began. `racks`: by broker, as listed. `adding`: replicas that a
    reassignment adds: who is not in sync while a partition is first seen may never have been.
    """
    changed, bounds, is_first = Changed(), Bounds.of_begin(state), state["prev_isr"] is None
    isr, replicas, out = set(state["isr"]), set(state["replicas"]), partition.out()
    prev_isr = replicas - set(adding) if is_first else set(state["prev_isr"])
    for broker in () if is_first else sorted(isr - prev_isr):
        changed.came.append(_change(state, bounds, broker, REJOINED if broker in out else JOINED, racks))
    for broker, absence in out.items():
        if broker in isr or broker not in replicas:
            end(absence, bounds)
            absence["end_reason"] = REJOINED if broker in isr else REMOVED
            changed.ended.append(absence)
    for broker in sorted(prev_isr - isr):
        absence = _change(state, bounds, broker, INITIALLY_OUT if is_first else LEFT, racks)
        absence |= {"cause_due_at": causes.due_at(state["valid_from"], state["interval_ms"]), "signs": []}
        earlier = partition.absences.setdefault(broker, [])
        earlier.append(absence)
        if not is_first:
            absence["is_flapping"] = _is_flapping(earlier, thresholds)
        if broker not in replicas:
            absence |= {"cause": REASSIGNMENT, "end_reason": REMOVED}
            end(absence, bounds)
        changed.left.append(absence)
    return changed


def _is_flapping(absences: list[Row], thresholds: Thresholds) -> bool:
    """Whether a broker leaves too often with the last of its absences."""
    times = 0
    for row in reversed(absences):
        if row["began_before"] <= absences[-1]["began_before"] - thresholds.flap_window:
            break
        times += row["change"] == LEFT
    return times >= thresholds.flaps


def _change(state: Row, bounds: Bounds, broker_id: int, change: str, racks: Mapping[int, str | None]) -> Row:
    return {
        **event(state, bounds, broker_id, change),
        **{name: state[name] for name in _OF_STATE},
        "broker_id": broker_id,
        "rack": racks.get(broker_id),
        "change": change,
        **_UNTOLD,
        "is_live": False,
    }
