"""The rows that folds of groups make: of gold.rebalances_told, gold.rebalance_members_told and gold.group_events_told,
as far as one source knows them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.rules.groups.micros import to_micros
from jobs.rules.groups.moves import MOVED, Change, Part, by_identity, changes, moves
from jobs.rules.groups.reasons import reasons
from jobs.rules.groups.state import (
    CLASSIC,
    CLIENT,
    MILLISECOND,
    STREAMS,
    Member,
    Moment,
    Partitions,
    Rebalance,
    Standing,
    numbered,
)

COMPLETED, EMPTIED, DELETED, CONVERTED, UNKNOWN = "completed", "emptied", "deleted", "converted", "unknown"

Row = dict[str, Any]
Key = Any
"""The input of a row's id: a tuple of the record, or the poll, that showed it."""

EVENT = ("group_type", "prev_group_type", "generation", "member_id", "prev_member_id", *CLIENT, "detail")
"""Columns of an event that are null where it has nothing to say."""

ENDED = ("ended_after", "ended_before", "duration_ms_min", "duration_ms_max", "ended_leader_epoch", "end_reason")


@dataclass(frozen=True)
class End:
    """How a rebalance ended, and when."""

    end_reason: str
    at: Moment


@dataclass(frozen=True)
class Told:
    """Rows by their keys, members by that of their rebalance. What is told again replaces what was told before."""

    rebalances: dict[Key, Row] = field(default_factory=dict)
    members: dict[Key, list[Row]] = field(default_factory=dict)
    events: dict[Key, Row] = field(default_factory=dict)

    def __or__(self, later: "Told") -> "Told":
        return Told(self.rebalances | later.rebalances, self.members | later.members, self.events | later.events)

    def rebalance(
        self, rebalance: Rebalance, after: Standing, end: End | None = None, last_offset: int | None = None
    ) -> Row:
        """Tell a rebalance and its members, whole; returns the row of the rebalance.

        `after`: the group now, or when it ended. `last_offset`: of the last record so far, where it has not ended.
        """
        began = rebalance.began
        # Offsets go back where the log was truncated, so an offset alone is no key.
        key = (began.log_partition, began.offset, to_micros(began.by)) if began.poll is None else (began.poll,)
        rebalance = _with_passed_alone(rebalance, after)
        row = _rebalance_row(rebalance, after, end) | {"last_offset": end.at.offset if end else last_offset}
        self.rebalances[key], self.members[key] = row, _member_rows(rebalance, after, _part(after, end))
        return row

    def event(self, event: str, at: Moment, **columns: Any) -> None:
        """Tell what happened: of the log one event for each record and instance id."""
        row = dict.fromkeys(EVENT) | columns
        by_record = (at.log_partition, at.offset, row["instance_id"], to_micros(at.by))
        self.events[by_record if at.poll is None else (event, at.poll, row["instance_id"])] = row | {
            "event": event,
            "began_after": at.after,
            "began_before": at.by,
            "log_partition": at.log_partition,
            "offset": at.offset,
            "poll": at.poll,
        }

    def restarts(self, at: Moment, before: Mapping[str, Member], now: Standing) -> None:
        """Tell which static members are back under another id."""
        for change in changes(before, now.members).values():
            if change.name == "restarted" and change.after is not None:
                self.event(
                    "static_restart",
                    at,
                    group_type=now.group_type,
                    generation=now.generation,
                    member_id=change.member_id,
                    prev_member_id=change.prev_member_id,
                    **_client(change.after),
                )


def end_columns(began_after: Any, began_before: Any, end: End | None) -> Row:
    """When and how a rebalance ended. A coordinator's clock may step back: nothing ends before it began."""
    if end is None:
        return dict.fromkeys(ENDED)
    by, after = max(end.at.by, began_before), end.at.after
    if after is not None:
        after = by if after == end.at.by else min(after, by)
    least = max(0, ((after or began_before) - began_before) // MILLISECOND)
    most = None if began_after is None else (by - began_after) // MILLISECOND
    return dict(zip(ENDED, (after, by, least, most, end.at.leader_epoch, end.end_reason), strict=True))


def _with_passed_alone(rebalance: Rebalance, after: Standing) -> Rebalance:
    """Without members that were there before, or are there under another id. One that restarted passed once."""
    before = rebalance.before.members if rebalance.before else {}
    there = by_identity(after.members).keys() | by_identity(before).keys()
    passed = by_identity(rebalance.passed)
    return replace(rebalance, passed=dict(known for who, known in passed.items() if who not in there))


def _came_to_be(end: End | None) -> bool:
    """Whether every member has what it was to have."""
    return end is not None and end.end_reason in (COMPLETED, EMPTIED)


def _part(after: Standing, end: End | None) -> Part:
    """The partitions that a member has after a rebalance, or is to have where that did not complete."""
    if after.group_type == CLASSIC or _came_to_be(end):
        return lambda member: member.has
    return lambda member: member.has if member.to_have is None else member.to_have


def _moved(rebalance: Rebalance, after: Standing, end: End | None) -> Row:
    # Not decided yet: who gets what was given up, or the target.
    is_open = not _came_to_be(end) and (after.group_type == CLASSIC or after.target_epoch != after.generation)
    moved = None
    if rebalance.before is not None and not is_open:
        moved = moves(rebalance.before.members, after.members, _part(after, end))
    return moved or dict.fromkeys(MOVED)


def _rebalance_row(rebalance: Rebalance, after: Standing, end: End | None) -> Row:
    began, before = rebalance.began, rebalance.before
    went = Counter(change.name for change in changes(before.members, after.members).values()) if before else Counter()
    passed = len(rebalance.passed)
    return {
        "group_type": after.group_type,
        "prev_group_type": rebalance.prev_group_type,
        "protocol_type": after.protocol_type,
        "generation": after.generation,
        "prev_generation": before and before.generation,
        "skipped_generations": rebalance.skipped_generations,
        "log_partition": began.log_partition,
        "first_offset": began.offset,
        "poll": began.poll,
        "began_after": began.after,
        "began_before": began.by,
        **end_columns(began.after, began.by, end),
        "assignor": after.assignor,
        "mode": after.mode,
        "phases": rebalance.phases if began.poll is None else None,
        "group_leader": after.leader,
        "members": len(after.members),
        "prev_members": before and len(before.members),
        "members_joined": before and went["joined"] + passed,
        "members_left": before and went["left"] + passed,
        "members_restarted": before and went["restarted"],
        **_moved(rebalance, after, end),
        "subscribed": _subscribed(after),
        "assigned": _assigned(rebalance, after, _part(after, end)),
        "reasons": before and reasons(rebalance, before, after),
        "since_previous_ms": rebalance.since_previous_ms,
    }


def _subscribed(group: Standing) -> list[str] | None:
    """Topics that the members name; None where a pattern, a topology or another protocol than the consumer's says
    which.
    """
    members = group.members.values()
    if group.group_type == STREAMS or any(member.topics is None or member.pattern is not None for member in members):
        return None
    return sorted({topic for member in members for topic in member.topics or ()})


def _assigned(rebalance: Rebalance, after: Standing, part: Part) -> list[Row] | None:
    """How many partitions of each topic somebody has; None where someone's are not known."""
    every: set[tuple[bool, str, int]] = set()
    for member in after.members.values():
        partitions = part(member)
        if partitions is None:
            return None
        every |= {(member.by_id, topic, number) for topic, number in numbered(partitions)}
    counts = Counter((by_id, topic) for by_id, topic, _ in every)
    return [
        _topic(rebalance, topic, by_id=by_id) | {"partitions": count}
        for (by_id, topic), count in sorted(counts.items())
    ]


def _topic(rebalance: Rebalance, topic: str, *, by_id: bool) -> Row:
    """By topic name, or by id where the source names topics so."""
    return {"topic": rebalance.topics.get(topic) if by_id else topic, "topic_id": topic if by_id else None}


def _member_rows(rebalance: Rebalance, after: Standing, part: Part) -> list[Row]:
    before = rebalance.before
    went = [Change(each, replace(member, has={}), None, None) for each, member in rebalance.passed.items()]
    if before is None:
        went += [Change(None, None, *each) for each in after.members.items()]
    else:
        went += changes(before.members, after.members).values()
    rows = []
    for change in went:
        was, is_now = change.before, change.after
        had = None if before is None else _shown(rebalance, was, was.has) if was else []
        rows.append(
            {
                "member_id": change.member_id if is_now else change.prev_member_id,
                "prev_member_id": change.prev_member_id if change.name == "restarted" else None,
                **_client(is_now or was or Member()),
                "change": change.name if before else "unknown",
                "before": had,
                "after": _shown(rebalance, is_now, part(is_now)) if is_now else [],
                "began_before": rebalance.began.by,
            }
        )
    return sorted(rows, key=lambda each: each["member_id"])


def _client(member: Member) -> Row:
    return {name: getattr(member, name) for name in CLIENT}


def _shown(rebalance: Rebalance, member: Member, partitions: Partitions | None) -> list[Row] | None:
    """As in gold.rebalance_members_told."""
    if partitions is None:
        return None
    return [
        _topic(rebalance, topic, by_id=member.by_id) | {"partitions": sorted(numbers)}
        for topic, numbers in sorted(partitions.items())
        if numbers
    ]
