"""What the fold tells: rows of gold.rebalances, gold.rebalance_members and gold.group_events, as far as the log alone knows them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.rules.groups.moves import Moves, by_identity, changes, moves
from jobs.rules.groups.reasons import reasons
from jobs.rules.groups.state import CLASSIC, STREAMS, Member, Partitions, Rebalance, Standing, State, from_ms, to_ms

COMPLETED, EMPTIED, DELETED, CONVERTED, UNKNOWN = "completed", "emptied", "deleted", "converted", "unknown"

Row = dict[str, Any]


@dataclass(frozen=True)
class End:
    """How a rebalance ended, and the bounds of when, ms; `after` None where nothing bounds it.

    `leader_epoch`: that wrote the record which ended it, None where no one record did.
    """

    ended_as: str
    after: int | None
    by: int
    leader_epoch: int | None = None

    @classmethod
    def with_record(cls, ended_as: str, row: Mapping[str, Any]) -> "End":
        """It ended when this row of the log was written."""
        at = to_ms(row["timestamp"])
        return cls(ended_as, at, at, row["leader_epoch"])


@dataclass
class Told:
    """Rows by their keys; what is told again replaces what was told before."""

    rebalances: dict[tuple[int, int], Row] = field(default_factory=dict)
    members: dict[tuple[int, int], list[Row]] = field(default_factory=dict)
    events: dict[tuple[int, str | None, int], Row] = field(default_factory=dict)

    def rebalance(self, state: State, rebalance: Rebalance, after: Standing, end: End | None) -> None:
        """Tell a rebalance and its members, whole. `after`: the group now, or when it ended."""
        # Offsets go back where the log was truncated, so an offset alone is no key.
        key = (rebalance.first_offset, rebalance.began_by)
        rebalance = _with_passed_alone(rebalance, after)
        end = end and _in_order(rebalance, end)
        self.rebalances[key] = {"log_partition": state.log_partition} | _rebalance_row(rebalance, after, end)
        self.members[key] = _member_rows(rebalance, after, end)

    def event(self, event: str, row: Mapping[str, Any], began_after: int, began_by: int, **columns: Any) -> None:
        """Tell what happened at a row of the log, between two times, ms: one event for each offset and instance id."""
        told = {
            "event": event,
            **dict.fromkeys(("group_type", "prev_group_type"), None),
            "began_after": from_ms(min(began_after, began_by)),
            "began_by": from_ms(began_by),
            "log_partition": row["log_partition"],
            "offset": row["offset"],
            **dict.fromkeys(
                ("generation", "member_id", "prev_member_id", "instance_id", "client_id", "client_host", "detail"), None
            ),
            **columns,
        }
        self.events[told["offset"], told["instance_id"], began_by] = told


def _with_passed_alone(rebalance: Rebalance, after: Standing) -> Rebalance:
    """Without members that were there before, or are there under another id; one that restarted meanwhile passed once."""
    there = by_identity(after.members).keys() | by_identity(rebalance.before.members if rebalance.before else {}).keys()
    passed = by_identity(rebalance.passed)
    return replace(rebalance, passed={each: rebalance.passed[each] for who, each in passed.items() if who not in there})


def _in_order(rebalance: Rebalance, end: End) -> End:
    """No end before the begin: a coordinator's clock may step back."""
    by = max(end.by, rebalance.began_by)
    if end.after is None:
        return replace(end, by=by)
    return replace(end, after=by if end.after == end.by else min(end.after, by), by=by)


def _part(after: Standing, end: End | None) -> Callable[[Member], Partitions | None]:
    """What a member has after a rebalance, or is to have where that did not complete."""
    if after.group_type == CLASSIC or (end is not None and end.ended_as in (COMPLETED, EMPTIED)):
        return lambda member: member.has
    return lambda member: member.has if member.to_have is None else member.to_have


def _moves(rebalance: Rebalance, after: Standing, end: End | None) -> Moves | None:
    if rebalance.before is None:
        return None
    completed = end is not None and end.ended_as in (COMPLETED, EMPTIED)
    # Not decided yet: who gets what was given up, or the target.
    if not completed and (after.group_type == CLASSIC or after.target_epoch != after.generation):
        return None
    return moves(rebalance.before.members, after.members, _part(after, end))


def _rebalance_row(rebalance: Rebalance, after: Standing, end: End | None) -> Row:
    before = rebalance.before
    went = [] if before is None else [change.name for change in changes(before.members, after.members).values()]
    known = before is not None
    moved = _moves(rebalance, after, end)
    passed = len(rebalance.passed)
    return {
        "group_type": after.group_type,
        "prev_group_type": rebalance.prev_group_type,
        "protocol_type": after.protocol_type,
        "generation": after.generation,
        "prev_generation": before.generation if before else None,
        "incomplete": rebalance.incomplete,
        "first_offset": rebalance.first_offset,
        "last_offset": rebalance.last_offset,
        "began_after": from_ms(rebalance.began_after),
        "began_by": from_ms(rebalance.began_by),
        "ended_after": from_ms(end.after) if end else None,
        "ended_by": from_ms(end.by) if end else None,
        "duration_ms_min": max(0, (end.after or rebalance.began_by) - rebalance.began_by) if end else None,
        "duration_ms_max": end.by - rebalance.began_after if end and rebalance.began_after is not None else None,
        "ended_leader_epoch": end.leader_epoch if end else None,
        "ended_as": end.ended_as if end else None,
        "assignor": after.assignor,
        "mode": after.mode,
        "phases": rebalance.phases,
        "group_leader": after.leader,
        "members": len(after.members),
        "prev_members": len(before.members) if before else None,
        "joined": went.count("joined") + passed if known else None,
        "left": went.count("left") + passed if known else None,
        "restarted": went.count("restarted") if known else None,
        "kept": moved and moved.kept,
        "moved": moved and moved.moved,
        "added": moved and moved.added,
        "lost": moved and moved.lost,
        "subscribed": _subscribed(after),
        "stickiness": moved and moved.stickiness,
        "reasons": reasons(rebalance, before, after) if before else None,
        "since_previous_ms": rebalance.since_previous_ms,
    }


def _subscribed(group: Standing) -> list[str] | None:
    """Topics that the members name; None where a pattern, a topology or another protocol than the consumer's says which."""
    members = group.members.values()
    if group.group_type == STREAMS or any(member.topics is None or member.pattern is not None for member in members):
        return None
    return sorted({topic for member in members for topic in member.topics or ()})


def _member_rows(rebalance: Rebalance, after: Standing, end: End | None) -> list[Row]:
    part = _part(after, end)

    def row(member_id: str, member: Member, change: str, **columns: Any) -> Row:
        return {
            "first_offset": rebalance.first_offset,
            "member_id": member_id,
            "prev_member_id": None,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "change": change,
            "before": [],
            "after": [],
            "began_by": from_ms(rebalance.began_by),
            **columns,
        }

    if rebalance.before is None:
        return [
            row(each, member, "unknown", before=None, after=_shown(part(member), member))
            for each, member in sorted(after.members.items())
        ]
    had = rebalance.before.members
    rows = [row(each, member, "left") for each, member in rebalance.passed.items()]
    for change in changes(had, after.members).values():
        if change.after is None:
            was = had[change.before or ""]
            rows.append(row(change.before or "", was, change.name, before=_shown(was.has, was)))
            continue
        member = after.members[change.after]
        was = had[change.before] if change.before is not None else Member(has={})
        rows.append(
            row(
                change.after,
                member,
                change.name,
                prev_member_id=change.before if change.name == "restarted" else None,
                before=_shown(was.has, was),
                after=_shown(part(member), member),
            )
        )
    return sorted(rows, key=lambda each: each["member_id"])


def _shown(partitions: Partitions | None, member: Member) -> list[Row] | None:
    """As in gold.rebalance_members: by topic name, or by id where the log names topics so."""
    if partitions is None:
        return None
    return [
        {
            "topic": None if member.by_id else topic,
            "topic_id": topic if member.by_id else None,
            "partitions": sorted(numbers),
        }
        for topic, numbers in sorted(partitions.items())
        if numbers
    ]
