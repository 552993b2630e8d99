"""The rules that tie a finding to the one that it follows from.

A finding follows from one other at most. Rules are tried in their order; of the findings that a
rule allows, the closest in time is taken. Where two findings may have begun is an interval, so a
rule allows what the two intervals allow.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from jobs.rules.incidents.finding import (
    BROKER_MISSING,
    CONFIG_CHANGED,
    CONTROLLER_ELECTED,
    COORDINATOR_MOVED,
    GROUP_STOPPED,
    GROUP_STUCK,
    ISR_LEFT,
    LAG,
    LEADER_CHANGED,
    LOG_DIR_FAILED,
    PARTITION_OFFLINE,
    PAUSE,
    QUORUM_FLAPPING,
    QUORUM_LOST,
    REASSIGNMENT,
    REBALANCE,
    REOPENED_WITHIN,
    STALE_BROKER,
    STUCK_TRANSACTION,
    UNCLEAN_ELECTION,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    Finding,
)

EXACT, BOUNDED, INFERRED = "exact", "bounded", "inferred"

Allowed = Callable[[Finding, Finding], bool]
"""Whether the second finding may follow from the first one, by who they are about."""


@dataclass(frozen=True)
class Rule:
    """A finding of kind `to` follows from one of kind `of`, if it began no more than `before` (s)
    earlier and no more than `after` (s) later; or while the other lasted, if `lasting`; or so long
    after its end, if `from_end`. `guess`: the rule itself is a guess. `why`: for people.
    """

    name: str
    of: str
    to: tuple[str, ...]
    before: int
    after: int
    who: Allowed
    why: str
    lasting: bool = False
    from_end: bool = False
    guess: bool = False

    def allows(self, first: Finding, then: Finding) -> bool:
        """Whether `then` may follow from `first`."""
        if first.kind != self.of or then.kind not in self.to or not self.who(first, then):
            return False
        least, most = delays(first, then)
        if -self.before <= most and least <= self.after:
            return True
        if self.from_end and first.ended_before is not None:
            return timedelta(0) <= then.began_before - first.ended_before <= self._after
        return self.lasting and least >= 0 and first.lasts_at(then.began_before)

    @property
    def _after(self) -> timedelta:
        return timedelta(seconds=self.after)


def delays(first: Finding, then: Finding) -> tuple[float, float]:
    """By how many seconds `then` began after `first`: at least, at most. A bound that is missing is
    taken for the other one.
    """
    least = (then.began_after or then.began_before) - first.began_before
    most = then.began_before - (first.began_after or first.began_before)
    return least.total_seconds(), most.total_seconds()


def _same_broker(first: Finding, then: Finding) -> bool:
    return first.broker_id is not None and first.broker_id == then.broker_id


def _is_leader(first: Finding, then: Finding) -> bool:
    return first.broker_id is not None and first.broker_id == then.leader


def _among(first: Finding, then: Finding) -> bool:
    return first.broker_id is not None and (
        first.broker_id in then.brokers or first.broker_id == then.broker_id
    )


def _any_among(first: Finding, then: Finding) -> bool:
    mine = {*first.brokers, first.broker_id} - {None}
    return not mine.isdisjoint({*then.brokers, then.broker_id})


def _same_group(first: Finding, then: Finding) -> bool:
    return first.group_id is not None and first.group_id == then.group_id


def _same_topic(first: Finding, then: Finding) -> bool:
    return first.topic is not None and first.topic == then.topic


def _same_rack(first: Finding, then: Finding) -> bool:
    return first.rack is not None and first.rack == then.rack and first.broker_id != then.broker_id


def _one_after_the_other(first: Finding, then: Finding) -> bool:
    """Both brokers asked to stop; or, where no source can tell, the first one was back before."""
    if first.broker_id == then.broker_id or False in {first.is_controlled, then.is_controlled}:
        return False
    is_announced = bool(first.is_controlled and then.is_controlled)
    is_back = first.ended_before is not None and first.ended_before <= then.began_before
    return is_announced or is_back


def _by_markers(first: Finding, then: Finding) -> bool:
    """Markers cannot be written to a partition that is offline."""
    return then.cause == "stuck_completing" and _same_topic(first, then)


def _as_long(first: Finding, then: Finding) -> bool:
    """Transactions that began, or were prepared, together: mostly one that wrote to both topics."""
    return first.topic != then.topic and first.cause == then.cause


def _anyone(first: Finding, then: Finding) -> bool:
    return first is not then


_ROLLING_S: Final = int(REOPENED_WITHIN.total_seconds())

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        *("same_rack", BROKER_MISSING, (BROKER_MISSING,), 10, 10, _same_rack),
        "brokers of one rack are lost at once",
        guess=True,
    ),
    Rule(
        *("rolling", BROKER_MISSING, (BROKER_MISSING,), 0, _ROLLING_S, _one_after_the_other),
        "brokers are stopped one after the other",
        from_end=True,
        guess=True,
    ),
    Rule(
        *("stale_missing", BROKER_MISSING, (STALE_BROKER,), 60, 60, _same_broker),
        "a broker that is cut off from the controllers is fenced, and answers from its old image",
        lasting=True,
    ),
    Rule(
        *("missing_isr", BROKER_MISSING, (ISR_LEFT,), 60, 60, _same_broker),
        "a broker that hangs leaves ISRs before it is fenced, one that is fenced leaves all",
        lasting=True,
    ),
    Rule(
        *("leader_stalled", BROKER_MISSING, (ISR_LEFT,), 60, 60, _is_leader),
        "a leader that hangs drops its followers before it is fenced",
    ),
    Rule(
        *("log_dir_isr", LOG_DIR_FAILED, (ISR_LEFT,), 60, 60, _same_broker),
        "the replicas of a directory that fails leave all ISRs at once",
    ),
    Rule(
        *("reassignment_isr", REASSIGNMENT, (ISR_LEFT,), 5, 60, _any_among),
        "a reassignment removes replicas",
        lasting=True,
    ),
    Rule(
        *("missing_leader", BROKER_MISSING, (LEADER_CHANGED,), 120, 60, _same_broker),
        "a broker that stops gives up its partitions, one that fails loses them",
        lasting=True,
    ),
    Rule(
        *("log_dir_leader", LOG_DIR_FAILED, (LEADER_CHANGED,), 60, 60, _same_broker),
        "a broker whose directory fails loses the partitions that it led from it",
    ),
    Rule(
        *("stale_leader", STALE_BROKER, (LEADER_CHANGED,), 60, 60, _same_broker),
        "a broker that is cut off from the controllers loses its partitions",
    ),
    Rule(
        *("missing_controller", BROKER_MISSING, (CONTROLLER_ELECTED,), 60, 60, _same_broker),
        "the broker was the active controller, too",
    ),
    Rule(
        *("quorum_controller", QUORUM_LOST, (CONTROLLER_ELECTED,), 60, 60, _anyone),
        "the quorum elects once it can again",
        lasting=True,
    ),
    Rule(
        *("quorum_controller", QUORUM_FLAPPING, (CONTROLLER_ELECTED,), 60, 60, _anyone),
        "each of them is an election",
        lasting=True,
    ),
    Rule(
        *("config_level", CONFIG_CHANGED, (UNDER_MIN_ISR,), 10, 60, _same_topic),
        "min.insync.replicas was changed",
        guess=True,
    ),
    Rule(
        *("missing_level", BROKER_MISSING, (PARTITION_OFFLINE,), 60, 60, _among),
        "the last replica in the ISR was on the broker",
        lasting=True,
    ),
    Rule(
        *("log_dir_level", LOG_DIR_FAILED, (PARTITION_OFFLINE,), 60, 60, _among),
        "the last replica in the ISR was in the directory",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("isr_level", ISR_LEFT, (UNDER_REPLICATED, UNDER_MIN_ISR), 10, 10, _any_among),
        "ISRs lost the broker",
        lasting=True,
    ),
    Rule(
        *("isr_level", ISR_LEFT, (PARTITION_OFFLINE,), 60, 60, _any_among),
        "ISRs had lost the broker before the last replica failed",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("missing_level", BROKER_MISSING, (UNDER_REPLICATED, UNDER_MIN_ISR), 60, 60, _among),
        "ISRs lack the broker",
        lasting=True,
    ),
    Rule(
        *("offline_election", PARTITION_OFFLINE, (UNCLEAN_ELECTION,), 60, 60, _any_among),
        "no replica in the ISR was there, so another one was elected",
        lasting=True,
    ),
    Rule(
        *("missing_election", BROKER_MISSING, (UNCLEAN_ELECTION,), 60, 60, _among),
        "no replica in the ISR was there, so another one was elected",
        lasting=True,
    ),
    Rule(
        *("same_transaction", STUCK_TRANSACTION, (STUCK_TRANSACTION,), 5, 5, _as_long),
        "one transaction writes to several topics",
        guess=True,
    ),
    Rule(
        *("offline_transaction", PARTITION_OFFLINE, (STUCK_TRANSACTION,), 60, 60, _by_markers),
        "the end of a transaction cannot be written to a partition that is offline",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("leader_coordinator", LEADER_CHANGED, (COORDINATOR_MOVED,), 10, 10, _same_broker),
        "the leader of a partition of __consumer_offsets coordinates its groups",
    ),
    Rule(
        *("missing_coordinator", BROKER_MISSING, (COORDINATOR_MOVED,), 120, 60, _same_broker),
        "the leader of a partition of __consumer_offsets coordinates its groups",
        lasting=True,
    ),
    Rule(
        *("coordinator_rebalance", COORDINATOR_MOVED, (REBALANCE,), 5, 120, _same_broker),
        "members whose session ended while the coordinator moved are gone",
        guess=True,
    ),
    Rule(
        *("rebalance_stuck", REBALANCE, (GROUP_STUCK,), 0, 0, _same_group),
        "the rebalance does not end",
        lasting=True,
    ),
    Rule(
        *("rebalance_pause", REBALANCE, (PAUSE,), 60, 60, _same_group),
        "nobody commits while the group rebalances",
        lasting=True,
    ),
    Rule(
        *("pause_lag", PAUSE, (LAG,), 10, 300, _same_group),
        "nobody consumes, so the group falls behind",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("rebalance_lag", REBALANCE, (LAG,), 10, 300, _same_group),
        "the group fell behind in the rebalance",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("transaction_lag", STUCK_TRANSACTION, (LAG,), 900, 600, _same_topic),
        "readers of committed records wait for a transaction of the topic that does not end",
        lasting=True,
        guess=True,
    ),
    Rule(
        *("lag_stopped", LAG, (GROUP_STOPPED,), 60, 600, _same_group),
        "the group is behind, and no offset is committed",
        lasting=True,
        guess=True,
    ),
)
"""In the order in which they are tried; docs/incidents.md has them, too."""


@dataclass(frozen=True)
class Link:
    """A finding follows from `first` by a rule. Delays in ms; null without a bound."""

    rule: Rule
    first: Finding
    sureness: str
    delay_ms_min: int | None
    delay_ms_max: int | None


def link(then: Finding, known: Sequence[Finding]) -> Link | None:
    """The link of a finding to that of `known` which it follows from; None if there is none."""
    return next(iter(links(then, known)), None)


def links(then: Finding, known: Sequence[Finding]) -> Iterable[Link]:
    """All links that the rules allow, one a rule, the likeliest first."""
    for rule in RULES:
        found = [each for each in known if rule.allows(each, then)]
        if found:
            yield _link(rule, min(found, key=lambda each: _distance(each, then)), then)


def _distance(first: Finding, then: Finding) -> tuple[bool, timedelta, datetime, tuple[str, ...]]:
    """The closest begin wins; what began later, only if nothing began before."""
    delay = then.began_before - first.began_before
    return delay < timedelta(0), abs(delay), first.began_before, tuple(map(str, first.subject))


def _link(rule: Rule, first: Finding, then: Finding) -> Link:
    least = None if then.began_after is None else then.began_after - first.began_before
    most = None if first.began_after is None else then.began_before - first.began_after
    if rule.guess or least is None or most is None:
        sureness = INFERRED
    else:
        sureness = EXACT if first.is_exact and then.is_exact else BOUNDED
    return Link(rule, first, sureness, _ms(least), _ms(most))


def _ms(of: timedelta | None) -> int | None:
    return None if of is None else of // timedelta(milliseconds=1)
