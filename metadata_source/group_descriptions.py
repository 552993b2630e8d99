"""What coordinators tell of groups, each type asked for by its own request.

| type | request | what it does not tell |
|---|---|---|
| classic | DescribeGroups | the generation; assignments, unless the group is stable |
| consumer (KIP-848) | ConsumerGroupDescribe | |
| share (KIP-932) | ShareGroupDescribe | targets |
| streams (KIP-1071) | StreamsGroupDescribe | |

A group may be gone by then, moved to another broker, or converted to another type: asked in the
wrong way coordinators answer that it is dead, or not there. Then it has an error, which says that
its state could not be told, and is never called dead. Sets are sorted, since brokers answer them in
any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Required, TypedDict

from kafka.protocol.admin import DescribeGroupsRequest

from metadata_source.errors import PollError
from metadata_source.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from metadata_source.outcomes import failed, outcome_of
from metadata_source.protocol.consumer_protocol import PROTOCOL_TYPE, read_one
from metadata_source.protocol.dicts import uuid_text
from metadata_source.protocol.group_specs import ASSIGNMENT, SUBSCRIPTION
from metadata_source.questions import Question, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from metadata_source.many_brokers import Broker, Time, Visits

_CLASSIC: Final = "classic"
_STABLE: Final = "Stable"
_DEAD: Final = "Dead"


class TopicPartitions(TypedDict):
    """Partitions of a topic that a member has, or is to have."""

    topic_id: str | None
    topic: str | None
    partitions: list[int]


class Tasks(TypedDict):
    """Tasks of a subtopology of Kafka Streams."""

    subtopology_id: str
    partitions: list[int]


class Member(TypedDict, total=False):
    """A member of a group. Absent: its type of group has no such thing."""

    member_id: Required[str]
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    epoch: int
    topics: list[str] | None
    regex: str | None
    assigned: list[TopicPartitions] | None
    target: list[TopicPartitions]
    active_tasks: list[Tasks]
    standby_tasks: list[Tasks]
    warmup_tasks: list[Tasks]
    target_active_tasks: list[Tasks]
    target_standby_tasks: list[Tasks]
    target_warmup_tasks: list[Tasks]


class Description(TypedDict, total=False):
    """The answer to the request of a group's type: `error`, or the rest, as far as it has that."""

    error: str
    state: str | None
    members: list[Member]
    protocol_type: str | None
    assignor: str | None
    group_epoch: int
    target_epoch: int
    topology_epoch: int | None


class Group(Description, total=False):
    """A group as it was listed, and as it was described."""

    group_id: Required[str]
    group_type: Required[str | None]


def describe(
    visits: Visits, broker: Broker, type_: str | None, ids: Sequence[str], given: Time
) -> Iterator[tuple[str, Description]]:
    """Yield the description of each group: at least an error."""
    group_type = _GROUP_TYPES.get(type_ or _CLASSIC)
    if group_type is None:
        unsupported: Description = {"error": "not_supported"}
        yield from ((group_id, unsupported) for group_id in ids)
        return
    answered: dict[str, Any] = {}
    problem = PollError("timeout", "no time was left to describe it")
    if not given.is_over:
        try:
            answer = visits.ask(
                broker.address,
                Question(group_type.request, {group_type.ids: ids}, group_type.lowest),
                given.until,
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
            _described(group_type, answered[group_id])
            if group_id in answered
            else {"error": unknown},
        )


def _described(group_type: _GroupType, group: Any) -> Description:
    try:
        check(group.error_code)
    except PollError as problem:
        return {"error": outcome_of(problem)}
    if group.group_state == _DEAD:
        return {
            "error": failed("dead to this request: gone, or of another type, since it was listed")
        }
    members = sorted(group_type.members(group), key=lambda member: str(member["member_id"]))
    for one, other in pairwise(member["member_id"] for member in members):
        if one == other:
            return {"error": failed("a member is listed twice")}
    return {"state": group.group_state, "members": members, **group_type.group(group)}


def type_of(listed: Any) -> str | None:
    """Return the type of a group; None before ListGroups v5 (Kafka 3.8)."""
    return listed.group_type.lower() if listed.group_type else None


def is_simple(group: Group) -> bool:
    """Whether no member ever joined a group (Kafka's `isSimpleConsumerGroup`)."""
    return group["group_type"] in {_CLASSIC, None} and group["protocol_type"] is None


def listed_group(listed: Any) -> Group:
    """Return a group as it was listed."""
    type_ = type_of(listed)
    return {
        "group_id": listed.group_id,
        "group_type": type_,
        "protocol_type": (listed.protocol_type or None) if type_ in {_CLASSIC, None} else None,
        "state": listed.group_state or None,
    }


def _epochs(group: Any) -> Description:
    return {
        "group_epoch": group.group_epoch,
        "target_epoch": group.assignment_epoch,
        "assignor": group.assignor_name or None,
    }


def _assigned(assignment: Any) -> list[TopicPartitions]:
    return _sorted_topics(
        {
            "topic_id": each.topic_id and uuid_text(each.topic_id.bytes),
            "topic": each.topic_name,
            "partitions": each.partitions,
        }
        for each in assignment.topic_partitions
    )


def _sorted_topics(topics: Iterable[TopicPartitions]) -> list[TopicPartitions]:
    return sorted(
        ({**each, "partitions": sorted(each["partitions"])} for each in topics),
        key=lambda each: (str(each["topic"]), str(each["topic_id"])),
    )


def _tasks(tasks: Iterable[Any]) -> list[Tasks]:
    return sorted(
        (
            {"subtopology_id": each.subtopology_id, "partitions": sorted(each.partitions)}
            for each in tasks
        ),
        key=lambda each: str(each["subtopology_id"]),
    )


def _classic_group(group: Any) -> Description:
    return {"protocol_type": group.protocol_type or None, "assignor": group.protocol_data or None}


def _classic_members(group: Any) -> Iterator[Member]:
    # The coordinator says subscriptions and assignments of a stable group alone
    # (ClassicGroup.describe).
    is_whole = group.protocol_type == PROTOCOL_TYPE and group.group_state == _STABLE
    for member in group.members:
        subscription = read_one(SUBSCRIPTION, member.member_metadata) if is_whole else None
        yield {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "rack": subscription["rack_id"] if subscription else None,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topics": sorted(subscription["topics"]) if subscription else None,
            "assigned": _classic_assigned(member.member_assignment) if is_whole else None,
        }


def _classic_assigned(data: bytes) -> list[TopicPartitions] | None:
    """Return what a member has; no bytes at all where the leader assigned it nothing."""
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


def _identity(member: Any) -> Member:
    """Return what members of groups with epochs have, of any type."""
    return {
        "member_id": member.member_id,
        "rack": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "epoch": member.member_epoch,
    }


def _consumer_members(group: Any) -> Iterator[Member]:
    for member in group.members:
        yield {
            **_identity(member),
            "instance_id": member.instance_id,
            "topics": sorted(member.subscribed_topic_names),
            "regex": member.subscribed_topic_regex or None,
            "assigned": _assigned(member.assignment),
            "target": _assigned(member.target_assignment),
        }


def _share_members(group: Any) -> Iterator[Member]:
    for member in group.members:
        yield {
            **_identity(member),
            "topics": sorted(member.subscribed_topic_names),
            "assigned": _assigned(member.assignment),
        }


def _streams_group(group: Any) -> Description:
    topology = group.topology
    return {**_epochs(group), "topology_epoch": topology and topology.epoch}


def _streams_members(group: Any) -> Iterator[Member]:
    for member in group.members:
        yield {
            **_identity(member),
            "instance_id": member.instance_id,
            "active_tasks": _tasks(member.assignment.active_tasks),
            "standby_tasks": _tasks(member.assignment.standby_tasks),
            "warmup_tasks": _tasks(member.assignment.warmup_tasks),
            "target_active_tasks": _tasks(member.target_assignment.active_tasks),
            "target_standby_tasks": _tasks(member.target_assignment.standby_tasks),
            "target_warmup_tasks": _tasks(member.target_assignment.warmup_tasks),
        }


@dataclass(frozen=True, slots=True)
class _GroupType:
    """How groups of one type are asked for, and what is kept of each and of its members."""

    request: Any
    group: Callable[[Any], Description]
    members: Callable[[Any], Iterator[Member]]
    ids: str = "group_ids"
    lowest: int = 0


_GROUP_TYPES: Final = {
    _CLASSIC: _GroupType(DescribeGroupsRequest, _classic_group, _classic_members, ids="groups"),
    "consumer": _GroupType(ConsumerGroupDescribeRequest, _epochs, _consumer_members),
    # Version 0 was early access (Kafka 4.0), and is gone.
    "share": _GroupType(ShareGroupDescribeRequest, _epochs, _share_members, lowest=1),
    "streams": _GroupType(StreamsGroupDescribeRequest, _streams_group, _streams_members),
}
