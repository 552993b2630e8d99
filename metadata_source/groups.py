"""Groups of every type as their coordinators describe them: listed by every broker, each described
by its type's own request.

| type | request | what it does not tell |
|---|---|---|
| classic | DescribeGroups | the generation; assignments, unless the group is stable |
| consumer (KIP-848) | ConsumerGroupDescribe | |
| share (KIP-932) | ShareGroupDescribe | targets |
| streams (KIP-1071) | StreamsGroupDescribe | |

A broker lists the groups that it coordinates, those of the partitions of ``__consumer_offsets``
that it leads. So they are all there if each of its partitions was led, before and after listing and
by its own word, by a broker that was listed; else nothing is told. Where that topic may not be
seen, or does not exist yet, every broker must have been listed.

A group is described by the broker that listed it. It may be gone by then, moved to another broker,
or converted to another type: asked in the wrong way coordinators answer that it is dead, or not
there. Then it stands here as listed, with an error that says that its state could not be told, and
never as dead.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

from metadata_source.addresses import format_address
from metadata_source.errors import PollError
from metadata_source.facts import OFFSETS_TOPIC
from metadata_source.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from metadata_source.outcomes import failed, outcome_of
from metadata_source.protocol.consumer_protocol import PROTOCOL_TYPE, read_one
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from metadata_source.protocol.values import uuid_text
from metadata_source.questions import Question, TopicQuestion, check
from metadata_source.threads import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metadata_source.addresses import Address

    _Tell: TypeAlias = Callable[
        ["Visits", "Broker", str | None, Sequence[str], "Time"], Iterator[tuple[str, "Values"]]
    ]

_GROUPS_A_REQUEST: Final = 200
_LOADING_BEGINS_S: Final = 1.0
_CLASSIC: Final = "classic"
_STABLE: Final = "Stable"
_DEAD: Final = "Dead"
_NAMED: Final = 20
"""Brokers and partitions that one line names."""
_REASONS: Final = 5

Values = dict[str, Any]
_Item = TypeVar("_Item")


class Broker(NamedTuple):
    """A broker as a poll was answered."""

    broker_id: int
    address: Address

    def says(self, error: PollError) -> str:
        """Return what is wrong, without the address."""
        return error.problem.removeprefix(f"{format_address(self.address)}: ")

    def __str__(self) -> str:
        return f"{self.broker_id} ({format_address(self.address)})"


class Visits(Protocol):
    """Asks brokers, from several threads at once. `deadline` is of `time.monotonic`."""

    @property
    def deadline(self) -> float:
        """When all asking must have ended."""

    def ask(self, address: Address, question: Question, deadline: float) -> Any:
        """Return the response, by a deadline that is not after the one of all. Raises PollError. Of
        one address at a time.
        """

    def are_new(self, led: frozenset[tuple[int, int]]) -> bool:
        """Whether one of these, partitions with leader epochs, was not there at the asking before,
        if there was one.
        """


class Coordinated(NamedTuple):
    """The groups that a broker listed, each with its type; None before ListGroups v5 (Kafka 3.8).

    `simple`: those that no member ever joined, so that they have no protocol: they only commit
    (Kafka's `isSimpleConsumerGroup`).
    """

    broker: Broker
    groups: dict[str, str | None]
    simple: frozenset[str]


class Described(NamedTuple):
    """The cluster's groups, sorted by id, as mappings that rows of bronze nest, and who coordinates
    them.

    `error` is null of a group that was described. One that may not be (`not_allowed`), or whose
    type has no request that is known here (`not_supported`), has type and state as listed. `failed:
    ...`: its state could not be told this time. `missing` says in one line how many those are, and
    why; None if there are none.
    """

    groups: list[Values]
    missing: str | None
    coordinated: list[Coordinated]


class Time(NamedTuple):
    """The time that all brokers have, s, and when it ends (of `time.monotonic`)."""

    seconds: float
    until: float

    @classmethod
    def share(cls, visits: Visits, steps: int) -> Time:
        """Return the time of the first of so many steps, which share evenly what is left."""
        now = time.monotonic()
        seconds = max(0.0, visits.deadline - now) / steps
        return cls(seconds, now + seconds)

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be asked any more."""
        return time.monotonic() >= self.until

    def check(self) -> None:
        """Raise PollError if nothing is to be asked any more."""
        if self.is_over:
            raise PollError("timeout", "not asked, no time was left")

    def problem(self, broker: Broker, error: PollError) -> str:
        """Return what a broker did wrong, and how long it had if it was late."""
        said = broker.says(error)
        return (
            f"{said} ({self.seconds:.1f} s, see enrichTimeout)" if error.kind == "timeout" else said
        )


@dataclass(frozen=True, slots=True)
class _Account:
    """The groups that one broker coordinates, and its answers about them and about the offsets
    topic.
    """

    broker: Broker
    groups: dict[str, Values]
    simple: frozenset[str]
    """As listed: what is described of a group may be that of none."""
    led: frozenset[tuple[int, int]]
    """Partitions of the offsets topic that it led before and after, with leader epochs."""
    partitions: frozenset[int]
    """All that there are; empty if it did not say."""


@dataclass(frozen=True, slots=True)
class _Lost:
    """A broker that did not list its groups."""

    broker: Broker
    error: PollError


def described(visits: Visits, brokers: Iterable[Broker]) -> Described:
    """Return all groups of the cluster. Raises PollError if some may be missing, and says which
    brokers and partitions.

    Brokers are asked side by side. It takes all of the time that is left.
    """
    accounts = _settled_accounts(visits, brokers, _describe, Time.share(visits, 1))
    groups: dict[str, Values] = {}
    for account in accounts:
        for group_id, group in account.groups.items():
            # Two brokers list a group that moves meanwhile: one of them describes it.
            if "error" in groups.get(group_id, {"error": None}):
                groups[group_id] = group
    missing = undone(
        (group["error"] for group in groups.values() if "error" in group),
        len(groups),
        "groups could not be described",
    )
    return Described(
        [groups[group_id] for group_id in sorted(groups)], missing, _coordinated(accounts)
    )


def coordinated(visits: Visits, brokers: Iterable[Broker]) -> list[Coordinated]:
    """Return who coordinates which groups, and describe none; else as `described`. It takes a third
    of the time that is left: commits and ends are asked for after it.
    """
    return _coordinated(
        _settled_accounts(visits, brokers, lambda *_: iter(()), Time.share(visits, 3))
    )


def at_addresses(items: Iterable[_Item], address: Callable[[_Item], Address]) -> list[list[_Item]]:
    """Return items together that are asked of one address: it has one connection, which carries a
    question at a time.

    Brokers may be at one (a proxy, a mistake).
    """
    at: dict[Address, list[_Item]] = {}
    for item in items:
        at.setdefault(address(item), []).append(item)
    return list(at.values())


def undone(errors: Iterable[str], total: int, what: str) -> str | None:
    """Return in one line how many of all failed in `what`, and why; None if there are none."""
    reasons = Counter(error.removeprefix("failed: ") for error in errors)
    if not reasons:
        return None
    each = [
        f"{reason}: {count}" if len(reasons) > 1 else reason
        for reason, count in reasons.most_common()
    ]
    return f"{reasons.total()} of {total} {what}: {_some(each, '; ', _REASONS)}"


def _coordinated(accounts: Iterable[_Account]) -> list[Coordinated]:
    return [
        Coordinated(
            account.broker,
            {group_id: group["group_type"] for group_id, group in account.groups.items()},
            account.simple,
        )
        for account in accounts
    ]


def _settled_accounts(
    visits: Visits, brokers: Iterable[Broker], tell: _Tell, given: Time
) -> list[_Account]:
    """Return what all brokers say, once coordinators that are new have begun to load. Raises
    PollError, as `_accounts`.

    `tell`: of a broker, a type and ids of its groups, what else there is to say of each.
    """
    at = at_addresses(brokers, lambda broker: broker.address)
    accounts = _accounts(visits, at, given, tell)
    if visits.are_new(frozenset[tuple[int, int]]().union(*(account.led for account in accounts))):
        # A broker says that it leads a moment before its coordinator begins to load, and lists
        # nothing until then.
        time.sleep(max(0.0, min(_LOADING_BEGINS_S, given.until - time.monotonic())))
        accounts = _accounts(visits, at, given, tell)
    return accounts


def _accounts(
    visits: Visits, brokers: Iterable[Sequence[Broker]], given: Time, tell: _Tell
) -> list[_Account]:
    """Return what all brokers say, each sequence of them in a thread. Raises PollError if groups
    may be missing.
    """
    told = side_by_side(
        brokers,
        lambda those: [_account_or_lost(visits, each, given, tell) for each in those],
        "groups",
    )
    answers = list(chain.from_iterable(told))
    accounts = [answer for answer in answers if isinstance(answer, _Account)]
    lost = [answer for answer in answers if isinstance(answer, _Lost)]
    for each in lost:
        if each.error.kind in {"authorization", "unsupported_version"}:
            raise each.error
    partitions = frozenset[int]().union(*(account.partitions for account in accounts))
    unled = partitions.difference(partition for account in accounts for partition, _ in account.led)
    if not unled and (partitions or not lost):
        return accounts
    problems = _problems(lost, given)
    if unled:
        problems.append(
            f"no broker that answered leads {OFFSETS_TOPIC} partitions {_some(sorted(unled))}"
        )
    raise PollError(lost[0].error.kind if lost else "broker_error", "; ".join(problems))


def _account_or_lost(visits: Visits, broker: Broker, given: Time, tell: _Tell) -> _Account | _Lost:
    try:
        return _account(visits, broker, given, tell)
    except PollError as error:
        return _Lost(broker, error)


def _account(visits: Visits, broker: Broker, given: Time, tell: _Tell) -> _Account:
    given.check()
    led, partitions = _led(visits, broker, given.until)
    question = Question(ListGroupsRequest, {"states_filter": [], "types_filter": []})
    answer = visits.ask(broker.address, question, given.until)
    check(answer.error_code)
    still_led, still_there = _led(visits, broker, given.until)
    groups = {listed.group_id: _listed_group(listed) for listed in answer.groups}
    simple = frozenset(group_id for group_id, group in groups.items() if _is_simple(group))
    for type_, ids in _batches(answer.groups):
        for group_id, told in tell(visits, broker, type_, ids, given):
            groups[group_id] |= told
    return _Account(broker, groups, simple, led & still_led, partitions | still_there)


def _problems(lost: Iterable[_Lost], given: Time) -> list[str]:
    """Return a line for each thing that is wrong, with the brokers of which it is said."""
    brokers: dict[str, list[Broker]] = {}
    for each in lost:
        brokers.setdefault(given.problem(each.broker, each.error), []).append(each.broker)
    return [
        f"broker{'s' * (len(those) > 1)} {_some(those)}: {problem}"
        for problem, those in brokers.items()
    ]


def _some(names: Sequence[object], separator: str = ", ", most: int = _NAMED) -> str:
    """Return the first of them in words, and how many more there are."""
    told = separator.join(map(str, names[:most]))
    return told if len(names) <= most else f"{told}{separator}and {len(names) - most} more"


def _led(
    visits: Visits, broker: Broker, deadline: float
) -> tuple[frozenset[tuple[int, int]], frozenset[int]]:
    """Return the partitions of the offsets topic that a broker leads by its own word, with epochs,
    and all that there are.
    """
    metadata = visits.ask(broker.address, TopicQuestion(OFFSETS_TOPIC), deadline)
    partitions = metadata.partitions.select(["partition", "leader", "leader_epoch"]).to_pylist()
    return (
        frozenset(
            (each["partition"], each["leader_epoch"])
            for each in partitions
            if each["leader"] == broker.broker_id
        ),
        frozenset(each["partition"] for each in partitions),
    )


def _batches(listed: Iterable[Any]) -> list[tuple[str | None, list[str]]]:
    """Return which groups of which type to ask about at once, in a random order: what time does not
    reach is told the next time.
    """
    together: dict[str | None, list[str]] = {}
    for each in listed:
        together.setdefault(_type_of(each), []).append(each.group_id)
    batches = [
        (type_, ids[begin : begin + _GROUPS_A_REQUEST])
        for type_, ids in together.items()
        for begin in range(0, len(ids), _GROUPS_A_REQUEST)
    ]
    random.shuffle(batches)
    return batches


def _describe(
    visits: Visits, broker: Broker, type_: str | None, ids: Sequence[str], given: Time
) -> Iterator[tuple[str, Values]]:
    """Yield what is told of each of the groups: at least an error."""
    kind = _KINDS.get(type_ or _CLASSIC)
    if kind is None:
        yield from ((group_id, {"error": "not_supported"}) for group_id in ids)
        return
    answered: dict[str, Any] = {}
    problem = PollError("timeout", "no time was left to describe it")
    if not given.is_over:
        try:
            answer = visits.ask(
                broker.address, Question(kind.request, {kind.ids: ids}, kind.lowest), given.until
            )
            answered = {group.group_id: group for group in answer.groups}
            problem = PollError("broker_error", "the coordinator left it out of its answer")
        except PollError as error:
            problem = error
    unknown = outcome_of(
        PollError(problem.kind, f"broker {broker}: {given.problem(broker, problem)}")
    )
    for group_id in ids:
        yield (
            group_id,
            _described(kind, answered[group_id]) if group_id in answered else {"error": unknown},
        )


def _described(kind: _Kind, group: Any) -> Values:
    try:
        check(group.error_code)
    except PollError as problem:
        return {"error": outcome_of(problem)}
    if group.group_state == _DEAD:
        return {
            "error": failed("dead to this request: gone, or of another type, since it was listed")
        }
    members = sorted(kind.members(group), key=lambda member: str(member["member_id"]))
    for one, other in pairwise(member["member_id"] for member in members):
        if one == other:
            return {"error": failed("a member is listed twice")}
    return {"state": group.group_state, "members": members, **kind.group(group)}


# --- what is kept of the answers; sets are sorted, since brokers answer them in any order ---


def _type_of(listed: Any) -> str | None:
    """Return the type of a group; None before ListGroups v5 (Kafka 3.8)."""
    return listed.group_type.lower() if listed.group_type else None


def _is_simple(group: Values) -> bool:
    return group["group_type"] in {_CLASSIC, None} and group["protocol_type"] is None


def _listed_group(listed: Any) -> Values:
    type_ = _type_of(listed)
    return {
        "group_id": listed.group_id,
        "group_type": type_,
        "protocol_type": (listed.protocol_type or None) if type_ in {_CLASSIC, None} else None,
        "state": listed.group_state or None,
    }


def _client(member: Any) -> Values:
    """Return who runs a member."""
    return {"client_id": member.client_id, "client_host": member.client_host}


def _epochs(group: Any) -> Values:
    return {"group_epoch": group.group_epoch, "target_epoch": group.assignment_epoch}


def _assignor(group: Any) -> Values:
    return {"assignor": group.assignor_name or None}


def _assigned(assignment: Any) -> list[Values]:
    return _sorted_topics(
        {
            "topic_id": each.topic_id and uuid_text(each.topic_id.bytes),
            "topic": each.topic_name,
            "partitions": each.partitions,
        }
        for each in assignment.topic_partitions
    )


def _sorted_topics(topics: Iterable[Values]) -> list[Values]:
    return sorted(
        ({**each, "partitions": sorted(each["partitions"])} for each in topics),
        key=lambda each: (str(each["topic"]), str(each["topic_id"])),
    )


def _tasks(assignment: Any, prefix: str = "") -> Values:
    return {
        f"{prefix}{name}": sorted(
            (
                {"subtopology_id": each.subtopology_id, "partitions": sorted(each.partitions)}
                for each in getattr(assignment, name)
            ),
            key=lambda each: str(each["subtopology_id"]),
        )
        for name in ("active_tasks", "standby_tasks", "warmup_tasks")
    }


def _classic_group(group: Any) -> Values:
    return {"protocol_type": group.protocol_type or None, "assignor": group.protocol_data or None}


def _classic_members(group: Any) -> Iterator[Values]:
    # Of a group that is not stable neither subscriptions nor assignments are told
    # (ClassicGroup.describe).
    is_told = group.protocol_type == PROTOCOL_TYPE and group.group_state == _STABLE
    for member in group.members:
        subscription = read_one(SUBSCRIPTION, member.member_metadata) if is_told else None
        yield {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "rack": subscription and subscription["rack_id"],
            **_client(member),
            "topics": subscription and sorted(subscription["topics"]),
            "assigned": _classic_assigned(member.member_assignment) if is_told else None,
        }


def _classic_assigned(data: bytes) -> list[Values] | None:
    """Return what a member has; the coordinator keeps no bytes at all where the leader assigned it
    nothing.
    """
    if not data:
        return []
    assignment = read_one(ASSIGNMENT, data)
    if assignment is None:
        return None
    # One topic may be there several times: so librdkafka's cooperative-sticky assignor writes it.
    partitions: dict[str, list[int]] = {}
    for each in assignment["assigned_partitions"]:
        partitions.setdefault(each["topic"], []).extend(each["partitions"])
    return _sorted_topics(
        {"topic_id": None, "topic": topic, "partitions": numbers}
        for topic, numbers in partitions.items()
    )


def _consumer_group(group: Any) -> Values:
    return _epochs(group) | _assignor(group)


def _consumer_members(group: Any) -> Iterator[Values]:
    for member in group.members:
        yield {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack": member.rack_id,
            **_client(member),
            "epoch": member.member_epoch,
            "topics": sorted(member.subscribed_topic_names),
            "regex": member.subscribed_topic_regex or None,
            "assigned": _assigned(member.assignment),
            "target": _assigned(member.target_assignment),
        }


def _share_members(group: Any) -> Iterator[Values]:
    for member in group.members:
        yield {
            "member_id": member.member_id,
            "rack": member.rack_id,
            **_client(member),
            "epoch": member.member_epoch,
            "topics": sorted(member.subscribed_topic_names),
            "assigned": _assigned(member.assignment),
        }


def _streams_group(group: Any) -> Values:
    topology = group.topology
    return _epochs(group) | _assignor(group) | {"topology_epoch": topology and topology.epoch}


def _streams_members(group: Any) -> Iterator[Values]:
    for member in group.members:
        yield {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack": member.rack_id,
            **_client(member),
            "epoch": member.member_epoch,
            **_tasks(member.assignment),
            **_tasks(member.target_assignment, "target_"),
        }


@dataclass(frozen=True, slots=True)
class _Kind:
    """How groups of one type are asked for, and what is kept of them: of the group and of its
    members.
    """

    request: Any
    group: Callable[[Any], Values]
    members: Callable[[Any], Iterator[Values]]
    ids: str = "group_ids"
    lowest: int = 0


_KINDS: Final = {
    _CLASSIC: _Kind(DescribeGroupsRequest, _classic_group, _classic_members, ids="groups"),
    "consumer": _Kind(ConsumerGroupDescribeRequest, _consumer_group, _consumer_members),
    # Version 0 was early access (Kafka 4.0), and is gone.
    "share": _Kind(ShareGroupDescribeRequest, _consumer_group, _share_members, lowest=1),
    "streams": _Kind(StreamsGroupDescribeRequest, _streams_group, _streams_members),
}
