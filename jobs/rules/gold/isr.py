"""The in-sync replicas of a partition: rows of gold.isr_changes (who left and came back) and
gold.isr_episodes (how bad it was meanwhile, stretches at a level).

ISRs are compared as sets, members and not sizes. A replica is out from the poll in which it left
the ISR, or in which its partition was first seen without it, until it is back, is no replica any
more, or the partition is gone. So a replica that a reassignment adds is not out before it has been
in: it never left. It has been in once the reassignment is over, whether a poll showed it there or
not.

Levels do not exclude each other. They are looked at where a state of the partition begins, and
where a setting of its topic changes; another finalized level alone changes nothing before then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from jobs.rules.gold.bounds import NOT_ENDED, Bounds, end, event
from jobs.rules.gold.causes import BACK, INITIALLY_OUT, LEFT, OFFLINE, due_at, give_sign, is_replica
from jobs.rules.gold.elections import NO_LEADER
from jobs.rules.gold.news import Known, Levels, partition_key
from jobs.rules.gold.rows import IsrChange, IsrEpisode, PartitionState
from metadata_source.kafka_constants import LISTENER_NOT_FOUND
from metadata_source.kinds import KINDS, UNDER_REPLICATED

BOUNDED_BY_REPLICAS_FROM_LEVEL = 15
"""Feature level of metadata.version 3.7-IV0. Brokers that have it, finalized or not, count min ISR
only as far as replicas exist (``Partition.effectiveMinIsr``, KIP-966).
"""

_OF_MIN_ISR = ("at_min_isr", "under_min_isr")


class Thresholds(Protocol):
    """A broker that leaves an ISR `flaps` times within `flap_window` is flapping."""

    flaps: int
    flap_window: timedelta


def effective_min_isr(setting: int | None, replicas: int, levels: Levels) -> int | None:
    """How many in-sync replicas acks=all asks for; None where that is not known.

    Before 3.7 a setting larger than the number of replicas counts as it is. It is the software that
    decides; the finalized level says no more than what each broker has at least.
    """
    if setting is None or setting <= replicas:
        return setting
    if max(levels.metadata_version or 0, levels.highest or 0) >= BOUNDED_BY_REPLICAS_FROM_LEVEL:
        return replicas
    return None if levels.highest is None else setting


def levels(
    state: PartitionState, min_isr: int | None, *, is_any_out: bool
) -> dict[str, bool | None]:
    """Whether a partition is at each level; None where the effective min ISR decides, and is not
    known, and where the ISR, or the leader, means nothing.
    """
    has_leader = state["leader"] != NO_LEADER or state["error_code"] == LISTENER_NOT_FOUND
    is_offline = None if state["leader"] is None else not has_leader
    if state["isr"] is None:
        return {**dict.fromkeys(("under_replicated", *_OF_MIN_ISR)), "offline": is_offline}
    at, under = (
        (None, None)
        if min_isr is None
        else (len(state["isr"]) == min_isr, len(state["isr"]) < min_isr)
    )
    of_min_isr = (
        {"at_min_isr": at, "under_min_isr": under}
        if has_leader
        else dict.fromkeys(_OF_MIN_ISR, False)
    )
    return {"under_replicated": is_any_out, "offline": is_offline, **of_min_isr}


@dataclass
class Partition:
    """A partition between two polls.

    `absences`: those from its ISR that matter still, the oldest first; only the last of a broker
    may last. `episodes`: those that last, by level. `state`: its row of silver, of those in the
    news and in their context.
    """

    absences: list[IsrChange] = field(default_factory=list)
    episodes: dict[str, IsrEpisode] = field(default_factory=dict)
    state: PartitionState | None = None

    def out(self) -> dict[int, IsrChange]:
        """The brokers that are out now, each with its absence."""
        return {row["broker_id"]: row for row in self.absences if row["ended_poll"] is None}

    def end(self, row: PartitionState) -> list[IsrChange]:
        """End what lasts, for the partition ended with this row of silver; returns the absences."""
        bounds, ended = Bounds.of_end(row), list(self.out().values())
        for each in (*ended, *self.episodes.values()):
            end(each, bounds)
            each |= {"end_reason": row["end_reason"], "is_live": False}
        self.episodes, self.state = {}, None
        return ended

    def follow(
        self,
        state: PartitionState,
        known: Known,
        racks: Mapping[int, str | None],
        thresholds: Thresholds,
    ) -> tuple[list[IsrChange], list[IsrChange], list[IsrChange]]:
        """The changes by a row of silver that began: brokers that came, absences that ended, and
        that began.

        `racks`: by broker, as listed.
        """
        self.state, bounds, is_first, out = (
            state,
            Bounds.of_begin(state),
            state["prev_isr"] is None,
            self.out(),
        )
        if state["isr"] is None:
            for absence in out.values():
                end(absence, bounds)
                absence["end_reason"] = "unknown"
            return [], list(out.values()), []
        isr, replicas = set(state["isr"]), set(state["replicas"] or ())
        prev_isr = _supposed_isr(state, known) if is_first else set(state["prev_isr"] or ())
        ended = [
            absence for broker, absence in out.items() if broker in isr or broker not in replicas
        ]
        for absence in ended:
            end(absence, bounds)
            absence["end_reason"] = "rejoined" if absence["broker_id"] in isr else "removed"
        joined = [] if is_first else sorted(isr - prev_isr)
        came = [
            _change(state, broker, "rejoined" if broker in out else "joined", racks)
            for broker in joined
        ]
        been = prev_isr if is_first else prev_isr | _in_between(state, known, prev_isr | out.keys())
        left = [
            _change(state, each, INITIALLY_OUT if is_first else LEFT, racks)
            for each in sorted(been - isr)
        ]
        self.absences += left
        for absence in left:
            absence |= {"cause_due_at": due_at(bounds.before, state["interval_ms"]), "signs": []}
            if not is_first:
                of_broker = [
                    row for row in self.absences if row["broker_id"] == absence["broker_id"]
                ]
                times = [row["began_before"] for row in of_broker if row["change"] == LEFT]
                since = bounds.before - thresholds.flap_window
                absence["is_flapping"] = sum(time > since for time in times) >= thresholds.flaps
            if not is_replica(absence):
                end(absence, bounds)
                absence |= {"cause": "reassignment", "end_reason": "removed"}
        for absence in self.absences:
            if absence["broker_id"] in (state["offline_replicas"] or ()):
                give_sign(absence, OFFLINE, bounds.before)
            if absence["broker_id"] in isr:
                give_sign(absence, BACK, bounds.before)
        return came, ended, left

    def follow_levels(
        self, known: Known, bounds: Bounds, settings: Bounds | None = None
    ) -> list[IsrEpisode]:
        """Begin, continue and end episodes by the state, new or not; returns those that begin.

        `settings`: when these changed, where the same poll showed it.
        """
        if self.state is None:
            return []
        isr, out = self.state["isr"], sorted(self.out())
        begun: list[IsrEpisode] = []
        size = None if isr is None else len(isr)
        setting = known.min_isr.get(self.state["topic"])
        min_isr = effective_min_isr(setting, len(self.state["replicas"] or ()), known.levels)
        for level, is_at in levels(self.state, min_isr, is_any_out=bool(out)).items():
            since = bounds.merged(settings) if level in _OF_MIN_ISR else bounds
            episode = self.episodes.get(level)
            if is_at and episode is None:
                episode = {
                    **event(self.state, since, level),
                    **NOT_ENDED,
                    "level": level,
                    "end_reason": None,
                    "brokers_out": [],
                    "smallest_isr": size,
                    "min_isr": None,
                    "is_live": True,
                }
                self.episodes[level] = episode
                begun.append(episode)
            if is_at and episode:
                episode["brokers_out"] = sorted({*episode["brokers_out"], *out})
                smallest = episode["smallest_isr"]
                if size is not None and smallest is not None:
                    episode["smallest_isr"] = min(smallest, size)
                if level in _OF_MIN_ISR and min_isr is not None:
                    episode["min_isr"] = max(min_isr, episode["min_isr"] or 0)
            elif episode:
                end(episode, since)
                episode |= {"end_reason": "unknown" if is_at is None else None, "is_live": False}
                del self.episodes[level]
        return begun


def _supposed_isr(state: PartitionState, known: Known) -> set[int]:
    """The ISR before a partition was first seen: all replicas, but for those that may never have
    been in it.

    These are what a reassignment adds and, where metadata does not tell them from followers,
    observers.
    """
    if UNDER_REPLICATED in KINDS[known.levels.kind].not_meaningful:
        return set(state["isr"] or ())
    return set(state["replicas"] or ()) - set(known.adding.get(partition_key(state), ()))


def _in_between(state: PartitionState, known: Known, been: set[int]) -> set[int]:
    """The replicas that were in the ISR between two polls: those that a reassignment added which is
    over.

    `been`: the brokers that were in the ISR before. The controller drops what a reassignment
    removes once all that it adds are in sync
    (PartitionReassignmentReplicas.maybeCompleteReassignment). If one is cancelled, or another one
    takes its place, what it has added goes instead.
    """
    replicas = set(state["replicas"] or ())
    is_over = bool((set(state["prev_replicas"] or ()) - replicas) & been)
    if not is_over or UNDER_REPLICATED in KINDS[known.levels.kind].not_meaningful:
        return set()
    return replicas - been - set(known.adding.get(partition_key(state), ()))


def _change(
    state: PartitionState, broker: int, change: str, racks: Mapping[int, str | None]
) -> IsrChange:
    return {
        **event(state, Bounds.of_begin(state), broker, change),
        **NOT_ENDED,
        "broker_id": broker,
        "rack": racks.get(broker),
        "change": change,
        "leader": state["leader"],
        "prev_leader": state["prev_leader"],
        "isr": state["isr"],
        "prev_isr": state["prev_isr"],
        "replicas": state["replicas"],
        "cause": None,
        "signs": None,
        "cause_due_at": None,
        "is_flapping": None,
        "end_reason": None,
        "is_live": False,
    }
