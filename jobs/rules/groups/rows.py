"""How rebalances begin and end, and the rows of them, their members, and other events."""

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, cast

from jobs.rules.groups.compare import (
    NO_MOVES,
    Change,
    Members,
    by_identity,
    changes,
    moves,
    reasons,
    skew,
)
from jobs.rules.groups.rebalance_rows import (
    End,
    EventRow,
    MemberRow,
    Moves,
    RebalanceRow,
    ShownBy,
    Topic,
    TopicCount,
    TopicPartitions,
)
from jobs.rules.groups.state import (
    CLASSIC,
    Member,
    Moment,
    Rebalance,
    Standing,
    State,
    numbered,
    to_micros,
)

COMPLETED, EMPTIED, DELETED, CONVERTED, UNKNOWN = (
    "completed",
    "emptied",
    "deleted",
    "converted",
    "unknown",
)
MEMBER_ROWS = "member_rows"
"""Not a column of a rebalance: its rows of internal.rebalance_members."""

MILLISECOND = timedelta(milliseconds=1)

Row = dict[str, Any]
Key = Any
"""The input of a row's id: a tuple of the record, or the poll, that showed it."""


@dataclass(frozen=True)
class GroupOutput:
    """Rows of rebalances, each with its MEMBER_ROWS, and of events, by their keys; a later row
    replaces an earlier.

    `recent`: keys of the rows that the last batch of the log told.
    """

    rows: dict[Key, Row] = field(default_factory=dict)
    recent: set[Key] = field(default_factory=set)

    def rebalance(
        self,
        rebalance: Rebalance,
        after: Standing,
        end_reason: str | None = None,
        end: Moment | None = None,
    ) -> RebalanceRow:
        """Tell a rebalance and its members; returns its row. `after`: the group now, or at its
        `end`.
        """
        began, before, key = rebalance.began, rebalance.before, key_of(rebalance)
        # Nobody passed that was there before, or is there under another id; who restarted passed
        # once.
        there = by_identity(before.members if before else {}) | by_identity(after.members)
        passed = dict(
            each for who, each in by_identity(rebalance.passed).items() if who not in there
        )
        is_reached = end_reason in (COMPLETED, EMPTIED)
        # Not decided yet: who gets what a classic group's members gave up, or the target.
        is_open = not is_reached and (
            after.group_type == CLASSIC or after.target_epoch != after.generation
        )
        rebalance, after = (
            replace(rebalance, passed=passed),
            after if is_reached else after.at_target,
        )
        went = changes(before.members, after.members) if before else []
        moved = moves(before.members, after.members) if before and not is_open else NO_MOVES
        ended_at = end_columns(began.after, began.by, end_reason, end)
        row = _rebalance_row(rebalance, after, went, moved, ended_at)
        row["last_offset"] = end.offset if end else None
        self.rows[key] = cast("Row", row)
        self.recent.add(key)
        return row

    def event(
        self,
        event: str,
        at: Moment,
        group: Standing | None = None,
        *,
        prev_group_type: str | None = None,
        restarted: Change | None = None,
        detail: str | None = None,
    ) -> None:
        """Tell what happened to a group: of the log one event for each record and instance id."""
        member = restarted and restarted.after
        row: EventRow = {
            "event": event,
            "group_type": group.group_type if group else None,
            "prev_group_type": prev_group_type,
            **_shown_by(at),
            "offset": at.offset,
            "generation": group.generation if group else None,
            "member_id": restarted.member_id if restarted else None,
            "prev_member_id": restarted.prev_member_id if restarted else None,
            "instance_id": member.instance_id if member else None,
            "client_id": member.client_id if member else None,
            "client_host": member.client_host if member else None,
            "detail": detail,
        }
        by_record = (at.log_partition, at.offset, row["instance_id"], to_micros(at.by))
        key = by_record if at.poll is None else (event, at.poll, row["instance_id"])
        self.rows[key] = cast("Row", row)
        self.recent.add(key)

    def restarts(self, at: Moment, before: Members, now: Standing) -> None:
        """Tell which static members are back under another id."""
        for each in changes(before, now.members):
            if each.name == "restarted":
                self.event("static_restart", at, now, restarted=each)


def key_of(rebalance: Rebalance) -> Key:
    """The key of its row. A log that was truncated has an offset twice, so that alone is none."""
    began = rebalance.began
    return (began.poll,) if began.poll else (began.log_partition, began.offset, to_micros(began.by))


def skipped(before: Standing | None, after: Standing) -> int | None:
    """Generations between the two; None where they are not known."""
    if before is None or before.generation is None or after.generation is None:
        return None
    return after.generation - before.generation - 1


def begun(state: State, before: Standing | None, after: Standing, began: Moment) -> Rebalance:
    """A rebalance that begins."""
    since = (
        None
        if before is None or state.last_end is None
        else (began.by - state.last_end) // MILLISECOND
    )
    return Rebalance(
        *(began, before, since and max(0, since), state.converted_from, skipped(before, after)),
        removed=state.removed,
    )


def overtaken(rebalance: Rebalance, more: int | None) -> Rebalance:
    """The rebalance with more generations that never completed, where their number is known."""
    so_far = rebalance.skipped_generations
    return replace(
        rebalance, skipped_generations=None if so_far is None or more is None else so_far + more
    )


def ended(
    state: State, rebalance: Rebalance, end_reason: str, end: Moment, output: GroupOutput
) -> State:
    """The state after a rebalance that ended."""
    output.rebalance(replace(rebalance, given_up={}), state.now, end_reason, end)
    return replace(state, rebalance=None, last_end=max(end.by, rebalance.began.by))


def interrupted(state: State, by: datetime, output: GroupOutput) -> State:
    """The state where records are missing: nothing is known; an open rebalance may have ended."""
    if rebalance := state.open_rebalance:
        output.rebalance(
            rebalance, state.now, UNKNOWN, Moment(by, state.at, offset=state.last_offset)
        )
    return State(
        state.log_partition, state.last_offset, state.at, gap=True, truncated=state.truncated
    )


def end_columns(
    began_after: datetime | None,
    began_before: datetime,
    end_reason: str | None,
    end: Moment | None,
) -> End:
    """When and how a rebalance ended. A clock may step back: nothing ends before it began."""
    if end is None:
        return {
            "ended_after": None,
            "ended_before": None,
            "duration_ms_min": None,
            "duration_ms_max": None,
            "ended_leader_epoch": None,
            "end_reason": None,
        }
    by, after = max(end.by, began_before), end.after
    if after is not None:
        after = by if after == end.by else min(after, by)
    least = max(0, ((after or began_before) - began_before) // MILLISECOND)
    most = None if began_after is None else (by - began_after) // MILLISECOND
    return {
        "ended_after": after,
        "ended_before": by,
        "duration_ms_min": least,
        "duration_ms_max": most,
        "ended_leader_epoch": end.leader_epoch,
        "end_reason": end_reason,
    }


def _shown_by(at: Moment) -> ShownBy:
    return {
        "log_partition": at.log_partition,
        "poll": at.poll,
        "began_after": at.after,
        "began_before": at.by,
    }


def _rebalance_row(
    rebalance: Rebalance, after: Standing, went: list[Change], moved: Moves, ended: End
) -> RebalanceRow:
    began, before, passed = rebalance.began, rebalance.before, len(rebalance.passed)
    count = Counter(each.name for each in went)
    return {
        "group_type": cast("str", after.group_type),  # A group that rebalances has one.
        "protocol_type": after.protocol_type,
        "generation": after.generation,
        "assignor": after.assignor,
        "mode": after.mode,
        "prev_group_type": rebalance.prev_group_type,
        "skipped_generations": rebalance.skipped_generations,
        "since_previous_ms": rebalance.since_previous_ms,
        **_shown_by(began),
        **ended,
        "first_offset": began.offset,
        "last_offset": None,
        "phases": rebalance.phases if began.poll is None else None,
        "group_leader": after.leader,
        "members": len(after.members),
        "prev_generation": before.generation if before else None,
        "prev_members": len(before.members) if before else None,
        "members_joined": count["joined"] + passed if before else None,
        "members_left": count["left"] + passed if before else None,
        "members_restarted": count["restarted"] if before else None,
        "reasons": reasons(rebalance, before, after, went, moved) if before else None,
        "silent_ms_max": _silent_ms_max(went),
        "removed_by": _removed_by(rebalance, went),
        "assignment_skew": skew(after.members),
        "subscribed": after.subscribed,
        "assigned": _assigned(rebalance, after),
        **moved,
        "member_rows": _member_rows(rebalance, after, went),
    }


def _silent_ms_max(went: list[Change]) -> int | None:
    """The longest session time-out of those that left: a death would show so much later."""
    left = (each.before for each in went if each.before is not None and each.after is None)
    return max(
        (member.session_timeout_ms for member in left if member.session_timeout_ms is not None),
        default=None,
    )


def _removed_by(rebalance: Rebalance, went: list[Change]) -> list[str] | None:
    """The time-outs that removed those that left, and those that passed."""
    left = {each.prev_member_id for each in went if each.name == "left"} | rebalance.passed.keys()
    return sorted({by for who, by in rebalance.removed.items() if who in left}) or None


def _assigned(rebalance: Rebalance, after: Standing) -> list[TopicCount] | None:
    """How many partitions of each topic somebody has; None where someone's are not known."""
    members = after.members.values()
    if any(member.has is None for member in members):
        return None
    every = {(member.by_id, *partition) for member in members for partition in numbered(member.has)}
    counts = sorted(Counter((by_id, topic) for by_id, topic, _ in every).items())
    return [
        {**_topic(rebalance, topic, by_id=by_id), "partitions": count}
        for (by_id, topic), count in counts
    ]


def _topic(rebalance: Rebalance, topic: str, *, by_id: bool) -> Topic:
    """By topic name, or by id where the source names topics so."""
    return {
        "topic": rebalance.topics.get(topic) if by_id else topic,
        "topic_id": topic if by_id else None,
    }


def _member_rows(rebalance: Rebalance, after: Standing, went: list[Change]) -> list[MemberRow]:
    before = rebalance.before
    passed = [
        Change(each, replace(member, has={}), None, None)
        for each, member in rebalance.passed.items()
    ]
    came = [] if before else [Change(None, None, *each) for each in after.members.items()]
    rows = [_member_row(rebalance, each) for each in (*passed, *came, *went)]
    return sorted(rows, key=lambda row: row["member_id"])


def _member_row(rebalance: Rebalance, change: Change) -> MemberRow:
    before, member = rebalance.before, change.after or change.before or Member()
    member_id = change.member_id if change.after else change.prev_member_id
    return {
        "member_id": member_id or "",
        "prev_member_id": change.prev_member_id if change.name == "restarted" else None,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rack": member.rack,
        "change": change.name if before else "unknown",
        "before": _has(rebalance, change.before) if before else None,
        "after": _has(rebalance, change.after),
        "began_before": rebalance.began.by,
    }


def _has(rebalance: Rebalance, member: Member | None) -> list[TopicPartitions] | None:
    """A member's partitions by topic; none where it is not there, None where they are not known."""
    if member is None or member.has is None:
        return [] if member is None else None
    topics = ((topic, sorted(numbers)) for topic, numbers in sorted(member.has.items()) if numbers)
    return [
        {**_topic(rebalance, topic, by_id=member.by_id), "partitions": numbers}
        for topic, numbers in topics
    ]
