"""The words for kinds of findings, for rules and for causes: a new one is a line in a table.

In a sentence `{be}` is what lasts or lasted; a sentence without it is about an instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from string import Formatter
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.thresholds import span
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Finding, Incident

LONGEST_NAME: Final = 60
"""Kafka takes names of groups of any length."""
NAMED: Final = 3

SENTENCES: Final = {
    "broker_missing": "{brokers} {be} missing",
    "partition_offline": "{partitions} {be} offline",
    "under_min_isr": "{partitions} {be} under min ISR",
    "quorum_lost": "the quorum of controllers {be} lost",
    "quorum_flapping": "the active controller {be} changing again and again",
    "stale_broker": "{brokers} {be} answering from old metadata",
    "unclean_election": "{partitions} got a leader by an unclean election",
    "group_stuck": "{groups} {be} stuck in a rebalance",
    "group_stopped": "{groups} {be} making no progress",
    "stuck_transaction": "a transaction of {partitions} {be} stuck",
    "log_dir_failed": "a log directory of {brokers} {be} offline",
    "isr_left": "{brokers} {be} out of the ISRs of {partitions}",
    "under_replicated": "{partitions} {be} under-replicated",
    "leader_changed": "leadership of {partitions} moved away from {brokers}",
    "coordinator_moved": "coordination of {groups} moved away from {brokers}",
    "rebalance": "{groups} {be} in a rebalance",
    "pause": "{groups} {be} paused for at least {ms}",
    "lag": "{groups} {be} behind by at most {records}",
    "controller_elected": "an active controller was elected {times}",
    "reassignment": "a reassignment of {partitions} {be} running",
    "config_changed": "min.insync.replicas was changed{thing}",
    "one_in_sync": "{partitions} {be} left with {brokers} alone in the ISR",
    "crash_loop": "a client of {groups} {be} in a crash loop",
    "group_behind": "{groups} {be} behind for long",
    "lone_setting": "{brokers} {be} set otherwise than all others{setting}",
    "throttle_left": "a throttle {be} left over without a reassignment{setting}",
    "shared_rack": "two replicas of {partitions} {be} in one rack",
}
"""Kind of a finding, as of gold.incident_links -> what happened."""

RULES: Final = {
    "same_rack": "in the same rack at the same time",
    "rolling": "the next one, as in a rolling restart",
    "stale_missing": "as it had lost the controllers",
    "missing_isr": "as the broker was missing",
    "leader_stalled": "as their leader hung",
    "log_dir_isr": "as the log directory failed",
    "reassignment_isr": "as replicas were moved",
    "missing_leader": "as the leader was missing",
    "log_dir_leader": "as the log directory failed",
    "stale_leader": "as the leader had lost the controllers",
    "missing_controller": "as the controller was missing",
    "quorum_controller": "in the quorum",
    "config_level": "as the setting was changed",
    "missing_level": "as a broker was missing",
    "log_dir_level": "as the log directory failed",
    "isr_level": "as ISRs had lost a broker",
    "offline_election": "as nobody in the ISR could lead",
    "missing_election": "as a broker was missing",
    "leader_coordinator": "as the leader of their partition of __consumer_offsets changed",
    "missing_coordinator": "as the coordinator was missing",
    "coordinator_rebalance": "as the coordinator had moved",
    "rebalance_stuck": "as a rebalance did not end",
    "rebalance_pause": "as the group rebalanced",
    "pause_lag": "as consumers paused",
    "rebalance_lag": "as the group rebalanced",
    "same_transaction": "at the same time, as of one transaction",
    "offline_transaction": "as its end could not be written there",
    "transaction_lag": "as readers of committed records wait for the transaction",
    "lag_stopped": "as it fell behind",
}
"""Rule, as of gold.incident_links -> why it is thought to be so."""


@dataclass(frozen=True)
class Cause:
    """`said`: what happened, `{of}` is to whom. `hidden`: what no metadata shows of it."""

    said: str
    hidden: str


CAUSES: Final = {
    "broker_down": Cause("broker {of} was down", "a crash, memory, the machine, its network"),
    "broker_hung": Cause(
        "broker {of} hung before it was missing", "pauses of GC, a disk that hangs, the network"
    ),
    "controlled_shutdown": Cause(
        "broker {of} was shut down in a controlled way", "who stopped it, and why"
    ),
    "rack": Cause("brokers of rack {of} were lost together", "the power and network of the rack"),
    "reassignment": Cause(
        "a reassignment ({of})", "who began it; disks and network of brokers that copy"
    ),
    "log_dir_failed": Cause("a log directory of broker {of} failed", "the disk and its errors"),
    "leader_stalled": Cause(
        "broker {of} stalled as a leader", "its disk, pauses of GC, its request threads"
    ),
    "lagging": Cause("broker {of} fell behind its leaders", "its disk, pauses of GC, the network"),
    "config_changed": Cause(
        "min.insync.replicas of {of} was changed", "who changed the setting, and why"
    ),
    "quorum": Cause("the quorum of controllers", "disks and network of controllers"),
    "stale": Cause(
        "broker {of} lost the controllers", "the network between the broker and controllers"
    ),
    "transaction": Cause(
        "a transaction of topic {of} does not end",
        "what its producer does, and why its coordinator does not end it: the logs of both",
    ),
    "group": Cause("group {of} itself", "what its members do: their code, GC and logs"),
    "unknown": Cause("not known", "disks, GC, the network, and who did what"),
}
"""Cause, as of gold.incidents."""

LEVELS: Final = {
    "under_replicated": "under-replicated",
    "at_min_isr": "at min ISR",
    "under_min_isr": "under min ISR",
    "offline": "offline",
}


def name(text: str) -> str:
    """Return a name of Kafka's, cut if it is too long for a line."""
    return (
        text
        if len(text) <= LONGEST_NAME
        else f"{text[:LONGEST_NAME]}... ({len(text):,} characters)"
    )


def listed(items: Sequence[object], noun: str = "") -> str:
    """Return `1 and 2`, `1, 2, 3 and 4 more`, with `brokers` before them if the noun is
    `broker`.
    """
    texts = [name(str(each)) for each in items[:NAMED]]
    more = len(items) - NAMED
    *some, last = [*texts, f"{more:,} more"] if more > 0 else texts
    all_of_them = f"{', '.join(some)} and {last}" if some else last
    return f"{noun}{'s' if len(items) > 1 else ''} {all_of_them}" if noun else all_of_them


def of_finding(of: Finding) -> str:
    """Return what a finding says, without its times: no full stop, no capital."""
    partitions = of.partitions
    said = _said(
        of.kind,
        _Subject(
            [] if of.broker_id is None else [of.broker_id],
            [] if of.group_id is None else [of.group_id],
            partitions,
            of.topic,
            of.number,
        ),
        lasts=of.ended_before is None,
    )
    if of.kind == "broker_missing" and of.rack is not None:
        said += f" (rack {name(of.rack)})"
    if of.leader is not None:
        said += f", dropped by broker {of.leader}"
    return f"{said} ({_spaced(of.cause)})" if of.cause is not None else said


def of_incident(of: Incident) -> str:
    """Return what an incident is, without its times: no full stop, no capital."""
    counts = {"partition_offline": of.offline_most, "under_min_isr": of.under_min_isr_most}
    topic = of.topics[0] if of.topics else None
    partitions = counts.get(of.kind, of.out_of_sync_most)
    subject = _Subject(of.brokers, of.group_ids, partitions, topic, None)
    return _said(of.kind, subject, lasts=of.is_open)


def meaning(kind: str) -> str:
    """Return what a kind means, of nobody in particular."""
    nobody = _Subject([], [], 0, None, None)
    return _said(kind, nobody, lasts=False)


def lasts(kind: str) -> bool:
    """Whether findings of a kind last, unlike those of an instant."""
    return "{be}" in SENTENCES.get(kind, "{be}")


def why(of: Finding) -> str:
    """Return how a finding is tied to the one before it; empty of the first cause."""
    if of.rule is None:
        return ""
    reason = RULES.get(of.rule, f"by the rule {of.rule}")
    return f"{reason} ({of.sureness})" if of.sureness is not None else reason


def cause(of: str, who: str | None, sureness: str | None = None) -> str:
    """Return what a cause says, and how sure it is."""
    known = CAUSES.get(of)
    said = _spaced(of) + (" ({of})" if who else "") if known is None else known.said
    if who is None:  # a word such as broker stays without its id
        said = said.replace(" ({of})", "").replace(" {of}", "")
    text = said.replace("{of}", name(who or ""))
    return f"{text} ({sureness})" if sureness is not None else text


def alternative(text: str) -> str:
    """Return what one of `alternatives` says: a cause, a colon, and who."""
    of, _, who = text.partition(":")
    return cause(of.strip(), who.strip() or None)


def when(after: datetime | None, before: datetime, day: str = "") -> str:
    """Return both bounds of an instant as `at T`, `between T and T` or `by T`. Dates that are `day`
    are left out.
    """
    last = clock(before, day)
    if after is None:
        return f"by {last}"
    first = clock(after, day)
    if first == last:
        return f"at {last}"
    return f"between {first} and {clock(before, f'{after.astimezone(UTC):%Y-%m-%d}')}"


def clock(at: datetime, day: str = "") -> str:
    """Return a time for people, without its date if that is `day`."""
    return shown(at).removeprefix(f"{day} ")


def day_of(*times: datetime | None) -> str:
    """Return the date that all times have, else an empty text."""
    days = {f"{at.astimezone(UTC):%Y-%m-%d}" for at in times if at is not None}
    return days.pop() if len(days) == 1 else ""


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class _Subject:
    brokers: Sequence[int]
    groups: Sequence[str]
    partitions: int
    topic: str | None
    number: int | None


def _said(kind: str, of: _Subject, *, lasts: bool) -> str:
    text = SENTENCES.get(kind)
    if text is None:
        return _spaced(kind) + _about(of)
    first = next((field for _, field, _, _ in Formatter().parse(text) if field), "be")
    many = {
        "brokers": len(of.brokers) > 1,
        "groups": len(of.groups) != 1,
        "partitions": of.partitions != 1,
    }.get(first, False)
    plural = many and not text.startswith("a ")
    be = ("have been" if plural else "has been") if lasts else ("were" if plural else "was")
    ms = "a while" if of.number is None else span(timedelta(milliseconds=of.number))
    return text.format(
        be=be,
        brokers=listed(of.brokers, "broker") if of.brokers else "a broker",
        groups=listed(of.groups, "group") if of.groups else "groups",
        partitions=_partitions(of),
        ms=ms,
        records="some records" if of.number is None else counted(of.number, "record"),
        times="" if of.number in {None, 1} else f"{of.number:,} times",
        thing=_about(of),
        setting="" if of.topic is None else f": {name(of.topic)}",
    ).rstrip(" ,")


def _partitions(of: _Subject) -> str:
    count = counted(of.partitions, "partition") if of.partitions else "partitions"
    if of.topic is None:
        return count
    topic = name(of.topic)
    return f"{count}, some of {topic}," if of.partitions > 1 else f"{count} of {topic}"


def _about(of: _Subject) -> str:
    """Return what is known of whom something is about."""
    said = [
        *([listed(of.brokers, "broker")] if of.brokers else []),
        *([listed(of.groups, "group")] if of.groups else []),
        *([f"topic {name(of.topic)}"] if of.topic is not None else []),
    ]
    return f" of {', '.join(said)}" if said else ""


def _spaced(text: str) -> str:
    return text.replace("_", " ")
