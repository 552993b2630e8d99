"""Rows of rebalances, of their members and of other events, as rules make them: without the columns
that say which group it is, and which source.
"""

from datetime import datetime
from typing import TypedDict


class Moves(TypedDict):
    """How many partitions moved between members; None where that is not known."""

    partitions_kept: int | None
    partitions_moved: int | None
    partitions_added: int | None
    partitions_lost: int | None
    stickiness: float | None


class ShownBy(TypedDict):
    """The record, or the poll, that showed something, and when it happened."""

    log_partition: int | None
    poll: str | None
    began_after: datetime | None
    began_before: datetime


class End(TypedDict):
    """When and how a rebalance ended; None while it lasts."""

    ended_after: datetime | None
    ended_before: datetime | None
    duration_ms_min: int | None
    duration_ms_max: int | None
    ended_leader_epoch: int | None
    end_reason: str | None


class Topic(TypedDict):
    """A topic, by name, or by id where the source names topics so."""

    topic: str | None
    topic_id: str | None


class TopicCount(Topic):
    """How many partitions of a topic somebody has."""

    partitions: int


class TopicPartitions(Topic):
    """The partitions of a topic that a member has."""

    partitions: list[int]


class MemberRow(TypedDict):
    """internal.rebalance_members."""

    member_id: str
    prev_member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    rack: str | None
    change: str
    before: list[TopicPartitions] | None
    after: list[TopicPartitions] | None
    began_before: datetime


class RebalanceRow(Moves, ShownBy, End):
    """internal.rebalances. `member_rows`: of its members."""

    group_type: str
    prev_group_type: str | None
    protocol_type: str | None
    generation: int | None
    prev_generation: int | None
    skipped_generations: int | None
    first_offset: int | None
    last_offset: int | None
    assignor: str | None
    mode: str | None
    phases: int | None
    group_leader: str | None
    members: int
    prev_members: int | None
    members_joined: int | None
    members_left: int | None
    members_restarted: int | None
    subscribed: list[str] | None
    assigned: list[TopicCount] | None
    reasons: list[str] | None
    silent_ms_max: int | None
    removed_by: list[str] | None
    assignment_skew: int | None
    since_previous_ms: int | None
    member_rows: list[MemberRow]


class EventRow(ShownBy):
    """internal.group_events."""

    event: str
    group_type: str | None
    prev_group_type: str | None
    offset: int | None
    generation: int | None
    member_id: str | None
    prev_member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None
    detail: str | None


class RebalanceBegin(TypedDict):
    """internal.rebalance_begins."""

    began_after: datetime | None
    began_before: datetime
    ended_before: datetime | None
