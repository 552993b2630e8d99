"""What befell a cluster, by its log: brokers that were missing, partitions that were offline or
under min ISR, and all that may follow from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby, pairwise

from truth.model.events import isr_stretches, leader_transitions
from truth.model.spells import (
    OFFLINE,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Span,
    level_spans,
    out_of,
    spans,
)
from truth.model.states import NO_LEADER, BrokerState, PartitionKey, Truth, at_time, during

MISSING, STALE, UNCLEAN = "broker_missing", "stale_broker", "unclean_election"
PARTITION_OFFLINE, QUORUM_FLAPPING = "partition_offline", "quorum_flapping"
ISR_LEFT, LEADER_CHANGED, REASSIGNMENT = "isr_left", "leader_changed", "reassignment"
CONTROLLER_ELECTED, CONFIG_CHANGED = "controller_elected", "config_changed"
LEVELS = {
    OFFLINE: PARTITION_OFFLINE,
    UNDER_MIN_ISR: UNDER_MIN_ISR,
    UNDER_REPLICATED: "under_replicated",
}
"""Level of partitions -> its kind."""

_ELECTIONS, _WITHIN = 3, timedelta(minutes=10)
_MIN_ISR = "min.insync.replicas"
_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that befell a cluster; `kind` as in gold.incident_links."""

    kind: str
    span: Span
    brokers: frozenset[int] = frozenset()
    topic: str | None = None
    partition: PartitionKey | None = None
    is_controlled: bool = False
    """Of a broker that is missing: the controllers had it stop."""


def faults(truth: Truth) -> list[Fault]:
    """All that the log tells, by kind."""
    return [
        *(each for states in truth.brokers.values() for each in _missing(states)),
        *_levels(truth),
        *_of_leaders(truth),
        *_of_quorum(truth),
        *_moves(truth),
        *(
            Fault(ISR_LEFT, Span(each.since, each.until), frozenset({each.broker_id}), each.topic)
            for each in isr_stretches(truth)
            if not each.inside
        ),
        *(
            Fault(CONFIG_CHANGED, Span(each.at, each.at), topic=each.resource)
            for each in truth.configs
            if each.name == _MIN_ISR
        ),
    ]


def _missing(states: list[BrokerState]) -> Iterator[Fault]:
    """A broker that registers for the first time is not missing before."""
    turns = [(is_alive, list(same)) for is_alive, same in groupby(states, lambda of: of.is_alive)]
    ends = [*(same[0].at for _, same in turns[1:]), None]
    for (before, (is_alive, same)), until in zip(
        pairwise([(False, []), *turns]), ends, strict=True
    ):
        if before[0] and not is_alive:
            yield Fault(
                MISSING,
                Span(same[0].at, until),
                frozenset({same[0].broker_id}),
                is_controlled=before[1][-1].in_controlled_shutdown,
            )


def _levels(truth: Truth) -> Iterator[Fault]:
    for (key, level), held in level_spans(truth).items():
        if level not in LEVELS:
            continue
        states = truth.partitions[key]
        outs = dict(zip(states, out_of(states), strict=True))
        for span in held:
            until = truth.ended_at if span.until is None else span.until - _MOMENT
            brokers = {each for state in during(states, span.since, until) for each in outs[state]}
            last = at_time(states, span.since - _MOMENT)
            if level == OFFLINE and last is not None:
                brokers.add(last.leader)
            name, topic = LEVELS[level], states[0].topic
            yield Fault(name, span, frozenset(brokers), topic, key)


def _of_leaders(truth: Truth) -> Iterator[Fault]:
    for each in leader_transitions(truth):
        span, before = Span(each.at, each.at), each.before
        if before.leader != NO_LEADER:
            yield Fault(LEADER_CHANGED, span, frozenset({before.leader}), before.topic, each.key)
        if each.unclean:
            # With an ELR the ISR may have been empty for a while.
            last = [of for of in truth.partitions[each.key] if of.at <= before.at and of.isr]
            isr = last[-1].isr if last else ()
            brokers = frozenset({*isr, before.leader} - {NO_LEADER})
            yield Fault(UNCLEAN, span, brokers, before.topic, each.key)


def _of_quorum(truth: Truth) -> Iterator[Fault]:
    """The first controller of a cluster was not elected in the place of another one."""
    for before, after in pairwise(truth.terms):
        of = frozenset({before.controller_id} - {None})
        yield Fault(CONTROLLER_ELECTED, Span(after.at, after.at), of)
    elected = [each.at for each in truth.terms[1:]]
    for first, last in zip(elected, elected[_ELECTIONS - 1 :], strict=False):
        if last - first <= _WITHIN:
            yield Fault(QUORUM_FLAPPING, Span(first, last))


def _moves(truth: Truth) -> Iterator[Fault]:
    for key, states in truth.partitions.items():
        moving = [bool(state.adding or state.removing) for state in states]
        for span in spans(states, moving, truth.ends_at(key)):
            state = at_time(states, span.since)
            if state is not None:
                brokers = frozenset({*state.adding, *state.removing})
                yield Fault(REASSIGNMENT, span, brokers, state.topic, key)
