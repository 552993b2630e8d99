"""Incidents that history tells, against the log: each fault of the cluster is in one, each is of a
fault, and what follows from what came so.

Made for the rows of gold.incidents, gold.incident_links and gold.events, of polls and of the
controllers' log. Findings of groups are left out: the log does not tell of groups.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from jobs.rules.incidents.links import RULES
from truth.chaos import Entry
from truth.compare_spells import Setting, SpellScore, counted, known_min_isr, not_counted
from truth.cuts import Views, cuts
from truth.incident_rows import Event, Finding, Told
from truth.model import faults as of_log
from truth.model.faults import Fault
from truth.model.spells import Span
from truth.model.states import Truth
from truth.observed import Watch

_LEVELS = frozenset(of_log.LEVELS.values())
_HURT = frozenset({of_log.PARTITION_OFFLINE, of_log.UNDER_MIN_ISR})
_OPENERS = _HURT | {of_log.MISSING, of_log.UNCLEAN, of_log.QUORUM_FLAPPING, of_log.STALE}
_MS = timedelta(milliseconds=1)
_LIFE = {"opened": 0, "reopened": 0, "ended": 2, "merged": 2, "withdrawn": 2}
"""Events of the life of an incident -> their order in one round."""


@dataclass(frozen=True)
class Observed:
    """The observations. `watch`, and `settings` of topics: None and none of the controllers' log,
    which was read up to `until`.
    """

    until: datetime
    watch: Watch | None = None
    settings: Sequence[Setting] = ()

    @property
    def tolerance(self) -> timedelta:
        """How far they trail the log."""
        return self.watch.tolerance if self.watch else timedelta(0)

    @cached_property
    def passed_over(self) -> frozenset[datetime]:
        """Times of polls that prove nothing."""
        return not_counted(self.watch) if self.watch else frozenset()

    @cached_property
    def _known(self) -> Mapping[str, frozenset[str]]:
        return known_min_isr(self.settings, self.watch) if self.watch else {}

    def shows(self, fault: Fault) -> bool:
        """Whether a fault is to be there."""
        if self.watch is None:
            return fault.kind in _OPENERS and fault.span.since <= self.until
        known = self._known.get(fault.topic or "", frozenset())
        return fault.kind in {of_log.MISSING, *_HURT} and any(
            fault.span.surely_holds(since, poll.received_at)
            and (fault.kind != of_log.UNDER_MIN_ISR or poll.poll_id in known)
            for poll, since in counted(self.watch)
        )


def compare_findings(
    told: Told, observed: Observed, truth: Truth, journal: Sequence[Entry]
) -> SpellScore:
    """Hold incidents against the truth."""
    known = [*of_log.faults(truth), *_stale(truth, journal)]
    score = SpellScore(rows=len(told.incidents) + len(told.findings) + len(told.events))
    of_kind: dict[str, list[Fault]] = defaultdict(list)
    for fault in known:
        of_kind[fault.kind].append(fault)
    for fault in known:
        if fault.kind != of_log.STALE and observed.shows(fault):
            score.claims += 1
            _judge_fault(fault, of_kind, told, observed, score)
    for row in told.findings:
        if row.kind in _OPENERS:
            score.claims += 1
            _judge_opener(row, of_kind[row.kind], observed, score)
    _judge_links(told, of_kind, observed, score)
    _judge_controlled(told, of_kind[of_log.MISSING], score)
    _judge_events(told, score)
    return score


def _stale(truth: Truth, journal: Sequence[Entry]) -> Iterable[Fault]:
    for cut in cuts(journal, Views(truth)):
        yield Fault(of_log.STALE, Span(cut.since, cut.until), frozenset({cut.broker_id}))


def _judge_fault(
    fault: Fault,
    of_kind: Mapping[str, Sequence[Fault]],
    told: Told,
    observed: Observed,
    score: SpellScore,
) -> None:
    """It has a row, and brokers that are missing have it in one incident alone. An unclean election
    belongs to the time without a leader that it ends.
    """
    found = _incidents_of(fault, told, observed)
    if not found:
        score.missed.append(f"{fault} is in no incident")
    if fault.kind == of_log.MISSING and len(found) > 1:
        score.misjudged.append(f"{fault} is in incidents {sorted(found)}")
    if fault.kind == of_log.UNCLEAN:
        score.misjudged += [
            f"{fault} is in another incident than {other}"
            for other in of_kind[of_log.PARTITION_OFFLINE]
            if (other.partition, other.span.until) == (fault.partition, fault.span.since)
            and found.isdisjoint(_incidents_of(other, told, observed))
        ]


def _incidents_of(fault: Fault, told: Told, observed: Observed) -> set[str]:
    return {
        row.incident_id
        for row in told.findings
        if row.is_about(fault) and row.may_last(fault.span, observed.tolerance)
    }


def _judge_opener(
    row: Finding, of_kind: Iterable[Fault], observed: Observed, score: SpellScore
) -> None:
    """A finding that opens an incident is of a fault, began when one did, and has no more
    partitions than are at its level.
    """
    mine = [
        fault
        for fault in of_kind
        if row.is_about(fault) and fault.span.may_hold(*_bounds(row, observed))
    ]
    if not mine:
        score.wrong.append(f"{row}: there was no such fault")
        return
    # The begins of partitions' levels by polls: truth/compare_spells.py; of stale brokers:
    # truth/compare_stale.py.
    is_judged = observed.watch is None or row.kind not in {*_LEVELS, of_log.STALE}
    is_judged &= not observed.passed_over & {row.began_after, row.began_before}
    if is_judged and not any(row.may_begin(each.span.since, observed.tolerance) for each in mine):
        score.outside.append(f"{row} began at another time")
    partitions = {fault.partition for fault in mine}
    if row.kind in _LEVELS and row.partitions > len(partitions):
        score.misjudged.append(f"{row}: there were {len(partitions)} partitions at most")


def _bounds(row: Finding, observed: Observed) -> tuple[datetime, datetime]:
    since = (row.began_after or row.began_before) - observed.tolerance
    return since, row.ended_before or observed.until


def _judge_links(
    told: Told, of_kind: Mapping[str, Sequence[Fault]], observed: Observed, score: SpellScore
) -> None:
    """What follows from another finding of its incident came as much later as it says, and as the
    rule allows; what is called exact is two records of the log.
    """
    by_id = {row.id: row for row in told.findings}
    if len(by_id) != len(told.findings):
        score.misjudged.append("a finding is there twice")
    for row in told.findings:
        if row.from_id is None:
            continue
        score.claims += 1
        first = by_id.get(row.from_id)
        if first is None or first.incident_id != row.incident_id:
            score.misjudged.append(f"{row} follows from none of its incident")
            continue
        begins = [_begins(each, of_kind[each.kind], observed) for each in (first, row)]
        if row.sureness == "exact" and not all(begins):
            score.wrong.append(f"{row}: the log has no such records")
        delays = [then - at for at in begins[0] for then in begins[1]]
        held = [each for each in delays if _is_within(row, each, observed)]
        if delays and not held:
            score.outside.append(f"{row} came {delays[0]} after {first}")
        elif held and not any(_is_allowed(row, first, each, observed) for each in held):
            score.misjudged.append(f"{row} came {held[0]} after {first}: its rule forbids that")


def _begins(row: Finding, of_kind: Iterable[Fault], observed: Observed) -> list[datetime]:
    """When it may have begun, by the log."""
    begins = (fault.span.since for fault in of_kind if row.is_about(fault))
    return [at for at in begins if row.may_begin(at, observed.tolerance)]


def _is_within(row: Finding, delay: timedelta, observed: Observed) -> bool:
    """Whether a delay lies within the bounds that the row has. These are cut to whole ms."""
    slack = observed.tolerance + _MS
    least, most = (None if ms is None else ms * _MS for ms in (row.delay_ms_min, row.delay_ms_max))
    return (least is None or least - slack <= delay) and (most is None or delay <= most + slack)


def _is_allowed(row: Finding, first: Finding, delay: timedelta, observed: Observed) -> bool:
    """Whether a rule of the name allows the order, and the delay if it bounds that."""
    for rule in RULES:
        if (rule.name, rule.of) == (row.rule, first.kind) and row.kind in rule.to:
            before, after = (timedelta(seconds=each) for each in (rule.before, rule.after))
            is_late = delay > after + observed.tolerance and not (rule.lasting or rule.from_end)
            if delay >= -before - observed.tolerance and not is_late:
                return True
    return False


def _judge_controlled(told: Told, missing: Sequence[Fault], score: SpellScore) -> None:
    """Where the log tells when a broker was gone, it tells whether the controllers had it stop."""
    incidents = {row.id: row for row in told.incidents}
    for row in told.findings:
        if row.kind != of_log.MISSING or row.source != "log":
            continue
        score.claims += 1
        for fault in missing:
            if row.is_about(fault) and fault.span.since == row.began_before:
                said = [row.is_controlled]
                if row.from_id is None:
                    said.append(incidents[row.incident_id].began_controlled)
                if {*said} != {fault.is_controlled}:
                    score.misjudged.append(f"{row}, {fault}: controlled is {said}")


def _judge_events(told: Told, score: SpellScore) -> None:
    """Each incident was opened once, or lasted when incidents were made first; and is over only if
    the last event of its life says so.
    """
    times = Counter(row.id for row in told.events)
    score.misjudged += [f"event {id_} is there {n} times" for id_, n in times.items() if n > 1]
    begun = [row.happened_before for row in told.events if row.event == "baseline"]
    made = [row.known_at for row in told.events] + [row.updated_at for row in told.incidents]
    first = min(made, default=None)
    of_incident: dict[str | None, list[Event]] = defaultdict(list)
    for event in sorted(told.events, key=lambda row: (row.known_at, _LIFE.get(row.event, 1))):
        of_incident[event.incident_id].append(event)
    for incident in told.incidents:
        score.claims += 1
        names = [event.event for event in of_incident.pop(incident.id, ())]
        is_older = any(incident.began_before <= at for at in begun)
        is_opened = names[:1] == ["opened"] and "opened" not in names[1:]
        last = ([None] + [name for name in names if name in _LIFE])[-1]
        is_told = last in {"ended", "merged", "withdrawn"}
        is_begun = is_opened or (is_older and "opened" not in names)
        # What was over when incidents were first made has no event.
        ended = incident.ended_before
        was_over = not names and None not in {ended, first} and ended <= first
        if not was_over and (not is_begun or is_told != (incident.end_reason is not None)):
            score.misjudged.append(f"{incident}: its events are {names}")
    of_incident.pop(None, None)
    score.wrong += [f"events of {id_}, which is no incident" for id_ in of_incident]
