"""The history of groups, as the comparison reads it: rows of gold.rebalances with their members,
gold.group_events and gold.rebalance_storms.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from local_cluster.members import TopicPartition

Row = Mapping[str, Any]
"""Columns of a gold table, or of what the fold gives for it."""


@dataclass(frozen=True)
class MemberRow:
    """A row of gold.rebalance_members."""

    member_id: str
    prev_member_id: str | None
    instance_id: str | None
    client_id: str | None
    change: str
    before: frozenset[TopicPartition] | None
    after: frozenset[TopicPartition] | None


@dataclass(frozen=True)
class Rebalance:
    """A row of gold.rebalances."""

    group_id: str
    group_type: str
    generation: int | None
    prev_generation: int | None
    skipped_generations: int | None
    began_before: datetime
    ended_before: datetime | None
    end_reason: str | None
    assignor: str | None
    mode: str | None
    phases: int | None
    members: int
    prev_members: int | None
    members_joined: int | None
    members_left: int | None
    members_restarted: int | None
    partitions_kept: int | None
    partitions_moved: int | None
    partitions_added: int | None
    partitions_lost: int | None
    stickiness: float | None
    assignment_skew: int | None
    reasons: tuple[str, ...] | None
    since_previous_ms: int | None
    people: tuple[MemberRow, ...]
    began_after: datetime | None = None
    ended_after: datetime | None = None
    stored_before: datetime | None = None
    """`began_before` as it is stored, where that was brought closer."""
    followed_coordinator_move: bool | None = None
    coordinator_move_id: str | None = None
    """Of an event."""

    def __str__(self) -> str:
        ended = (
            f"{self.ended_before:%H:%M:%S.%f} {self.end_reason}" if self.ended_before else "goes on"
        )
        reasons = ", ".join(self.reasons or ())
        began = f"{self.began_before:%H:%M:%S.%f}"
        return (
            f"{self.group_id} {self.prev_generation} to {self.generation} ({began} to {ended}; "
            f"{reasons})"
        )


@dataclass(frozen=True)
class GroupEvent:
    """A row of gold.group_events."""

    id: str
    group_id: str
    event: str
    began_after: datetime | None
    began_before: datetime
    member_id: str | None = None
    prev_member_id: str | None = None
    instance_id: str | None = None
    broker_id: int | None = None
    prev_broker_id: int | None = None
    detail: str | None = None

    def __str__(self) -> str:
        told = f"{self.instance_id or ''} {self.detail or ''}"
        return f"{self.group_id} {self.event} at {self.began_before:%H:%M:%S.%f} {told}".rstrip()


@dataclass(frozen=True)
class Storm:
    """A row of gold.rebalance_storms."""

    group_id: str
    kind: str
    client_id: str | None
    began_before: datetime
    last_before: datetime
    rebalances: int

    def __str__(self) -> str:
        who = "" if self.client_id is None else f" of {self.client_id}"
        times = f"{self.began_before:%H:%M:%S.%f} to {self.last_before:%H:%M:%S.%f}"
        return f"{self.group_id} {self.kind}{who}, {times}, {self.rebalances} rebalances"


@dataclass(frozen=True)
class History:
    """All of it, in order of time."""

    rebalances: Sequence[Rebalance]
    events: Sequence[GroupEvent]
    storms: Sequence[Storm] = ()


def history_of(
    rebalances: Iterable[Row],
    members: Iterable[Row],
    events: Iterable[Row],
    storms: Iterable[Row] = (),
    *,
    topics: Mapping[str, str],
) -> History:
    """History of rows; those of a rebalance and of its members have the same `rebalance_id`.

    `topics` are names by topic id, for rows that have ids alone.
    """
    people: dict[Any, list[MemberRow]] = defaultdict(list)
    for row in members:
        fields = _fields(MemberRow, row) | {
            when: _partitions(row[when], topics) for when in ("before", "after")
        }
        people[row["rebalance_id"]].append(MemberRow(**fields))
    return History(
        sorted(
            (_rebalance(row, people[row["rebalance_id"]]) for row in rebalances),
            key=lambda row: row.began_before,
        ),
        sorted(
            (GroupEvent(**_fields(GroupEvent, row)) for row in events),
            key=lambda row: row.began_before,
        ),
        tuple(
            sorted(
                (Storm(**_fields(Storm, row)) for row in storms), key=lambda row: row.began_before
            )
        ),
    )


def _rebalance(row: Row, people: Sequence[MemberRow]) -> Rebalance:
    fields = _fields(Rebalance, row)
    fields["reasons"] = None if row["reasons"] is None else tuple(row["reasons"])
    return Rebalance(**fields, people=tuple(sorted(people, key=lambda each: each.member_id)))


def _fields(kind: type, row: Row) -> dict[str, Any]:
    return {name: row[name] for name in kind.__dataclass_fields__ if name in row}


def _partitions(
    assigned: Sequence[Row] | None, topics: Mapping[str, str]
) -> frozenset[TopicPartition] | None:
    if assigned is None:
        return None
    return frozenset(
        (each["topic"] or topics.get(each["topic_id"], each["topic_id"]), partition)
        for each in assigned
        for partition in each["partitions"]
    )
