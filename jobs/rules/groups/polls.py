"""Rebalances of one group, its members and events, as polls show them; and when those of classic groups began.

Polls bound times, and what came and went between two of them is one rebalance. Epochs still count: each rise of a group
epoch is a change that the coordinator saw. Classic groups tell no generation, and what they have only while Stable
(ClassicGroup.describe): there a rebalance shows by its states, or by members, subscriptions or assignments that differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from jobs.rules.groups import classic
from jobs.rules.groups.compare import identity
from jobs.rules.groups.endings import skipped
from jobs.rules.groups.rows import COMPLETED, CONVERTED, DELETED, EMPTIED, End, Told
from jobs.rules.groups.state import CLASSIC, CLIENT, MODES, STREAMS, Member, Moment, Rebalance, Row, Standing, gathered

REBALANCING = ("PreparingRebalance", "CompletingRebalance")
STABLE = "Stable"
AWAY = -2
"""Epoch of a static member that left and is expected back:
ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH.
"""

GONE = "gone"
DESCRIBED = (
    *("group_type", "protocol_type", "state", "assignor", "members"),
    *("group_epoch", "target_epoch", "topology_epoch"),
)
"""The columns that a poll says of a group; silver has them of the state before, too."""

NOBODY = Standing()
"""A group before it was made."""


@dataclass(frozen=True)
class Open:
    """A rebalance that has not ended, and the group as last seen."""

    rebalance: Rebalance
    now: Standing


def polled(rows: Iterable[Row], open_: Open | None = None) -> tuple[Open | None, Told]:
    """The rebalances that the polls of a group tell, and the one that is open after them, told as far as it is known.

    `rows`: of silver.group_snapshots, in order, times as aware datetimes, that began or ended since the last ones;
    those that began have `is_new`, of the others only the end is told. `open_`: the rebalance that was open before.
    """
    told = Told()
    for row in rows:
        if row["is_new"]:
            open_ = _follow(row, open_, told)
        if row["end_reason"] == GONE:
            _tell_deleted(row, open_, told)
            open_ = None
    if open_ is not None:
        _tell(open_, told)
    return open_, told


def begins(rows: Iterable[Row], open_: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Rows of gold.rebalance_begins: stretches in which a classic group rebalances, and changes from one state at rest
    to another between two polls. The log tells rebalances only once they are over.

    `rows`: as `polled` takes them. `open_`: the stretch that was open before them; the last one is, if it has no end.
    """
    told = []
    for row in rows:
        end = row["valid_to"] if row["end_reason"] == GONE else None
        if row["is_new"]:
            is_classic, rebalanced = type_of(row) == CLASSIC, row["prev_state"] in REBALANCING
            rebalances = is_classic and row["state"] in REBALANCING
            changed = is_classic and row["prev_state"] is not None and not rebalanced
            if open_ is None and (rebalances or changed):
                after = None if rebalanced else row["prev_sent_at"]
                open_ = {"began_after": after, "began_before": row["valid_from"], "ended_before": None}
            end = end if rebalances else row["valid_from"]
        if open_ is not None and end is not None:
            told.append(open_ | {"ended_before": end})
            open_ = None
    return told if open_ is None else [*told, open_]


def type_of(row: Row) -> str:
    """Type of a group. Before 3.8 types are not told: there are only classic groups."""
    return row["group_type"] or CLASSIC


def _follow(row: Row, open_: Open | None, told: Told) -> Open | None:
    """The rebalance that is open after a state, if any."""
    at = Moment(row["valid_from"], row["prev_sent_at"], poll=row["first_poll"])
    prev = {name: row[f"prev_{name}"] for name in DESCRIBED}
    is_first = prev["state"] is None and prev["group_type"] is None
    was_seen = row["prev_poll"] is not None
    group = {"group_type": type_of(row), "generation": row["group_epoch"]}
    converted_from = None
    if is_first and was_seen:
        told.event("created", at, **group)
    elif not is_first and type_of(prev) != type_of(row):
        converted_from = type_of(prev)
        told.event("converted", at, prev_group_type=converted_from, **group)
        if open_ is not None:
            _tell(open_, told, End(CONVERTED, at))
            open_ = None
    now = _standing(row)
    if now is None:
        return open_
    is_settled = _is_settled(now, row["state"])
    if open_ is None:
        before = _standing(prev)
        if is_first:
            before = NOBODY if was_seen else None
        if not _begins(before, now, is_settled=is_settled):
            if before is not None:
                told.restarts(at, before.members, now)
            return None
        began = at if before is not None else replace(at, after=None)
        # A static member that has just come back has what it is to have.
        at_rest = before and before.at_target
        open_ = Open(Rebalance(began, at_rest, prev_group_type=converted_from, topics=_topics(prev)), now)
    open_ = Open(replace(open_.rebalance, topics=open_.rebalance.topics | _topics(row)), now)
    if not is_settled:
        return open_
    _tell(open_, told, End(COMPLETED if now.members else EMPTIED, at))
    return None


def _begins(before: Standing | None, now: Standing, *, is_settled: bool) -> bool:
    """Whether a group rebalanced since `before`, in which no rebalance was open."""
    if before is None:
        return not is_settled
    if before is NOBODY:
        return bool(now.members) or not is_settled
    if before.group_type != now.group_type:
        return True
    if now.group_type == CLASSIC:
        return not is_settled or _asks_and_has(before) != _asks_and_has(now)
    return before.generation != now.generation


def _asks_and_has(group: Standing) -> tuple[Any, ...]:
    """The part of a classic group that only a rebalance changes."""
    members = {identity(*each): (each[1].topics, each[1].has) for each in group.members.items()}
    return members, group.assignor, group.protocol_type


def _tell_deleted(row: Row, open_: Open | None, told: Told) -> None:
    """A group that is gone. Only one without members can be deleted, so those that were seen last had left before."""
    at = Moment(row["valid_to"], row["last_seen_sent_at"], poll=row["superseded_poll"])
    told.event("deleted", at, group_type=type_of(row))
    last = _standing(row)
    if open_ is None and last is not None and last.members:
        open_ = Open(Rebalance(at, last.at_target, topics=_topics(row)), last)
    if open_ is not None:
        gone = Standing(group_type=open_.now.group_type, protocol_type=open_.now.protocol_type)
        _tell(replace(open_, now=gone), told, End(DELETED, at))


def _tell(open_: Open, told: Told, end: End | None = None) -> None:
    now, between = open_.now, skipped(open_.rebalance.before, open_.now)
    if between is not None and between < 0:
        between = None  # Epochs fell: they were not counted on.
    row = told.rebalance(replace(open_.rebalance, skipped_generations=between), now, end)
    grew = row["partitions_added"] or row["partitions_lost"]
    if row["reasons"] == ["same_members"] and now.group_type != CLASSIC and grew:
        row["reasons"] = ["partitions_changed"]


def _standing(row: Row) -> Standing | None:
    """The group as the row describes it; None where it may not be described."""
    if row["members"] is None:
        return None
    type_, protocol_type, mode = type_of(row), row["protocol_type"], MODES.get(type_of(row))
    if type_ == CLASSIC and protocol_type == classic.CONSUMER_PROTOCOL:
        mode = classic.MODES.get(row["assignor"])
    return Standing(
        group_type=type_,
        generation=row["group_epoch"],
        protocol_type=protocol_type,
        assignor=row["assignor"],
        mode=mode,
        target_epoch=row["target_epoch"],
        members={member["member_id"]: _member(type_, row["topology_epoch"], member) for member in row["members"]},
    )


def _member(type_: str, topology_epoch: int | None, member: Row) -> Member:
    has, to_have = ("active_tasks", "target_active_tasks") if type_ == STREAMS else ("assigned", "target")
    return Member(
        **{name: member[name] for name in (*CLIENT, "topics", "epoch")},
        pattern=member["regex"],
        topology_epoch=topology_epoch,
        has=None if member[has] is None else gathered(member[has]),
        to_have=None if member[to_have] is None else gathered(member[to_have]),
        by_id=type_ not in (CLASSIC, STREAMS),
    )


def _topics(row: Row) -> dict[str, str]:
    """Topic ids -> names."""
    named = [each for member in row["members"] or () for part in ("assigned", "target") for each in member[part] or ()]
    return {each["topic_id"]: each["topic"] for each in named if each["topic_id"] and each["topic"]}


def _is_settled(group: Standing, state: str | None) -> bool:
    """Whether no rebalance is open: every member that is there has reached the group's epoch. A static one that is away
    keeps none waiting.

    A share group is Stable with any member (ShareGroup.maybeUpdateState), so its epochs have to agree too.
    """
    if group.group_type == CLASSIC:
        return state not in REBALANCING
    if not group.members:
        return True
    there = [member for member in group.members.values() if member.epoch != AWAY]
    if {group.target_epoch, *(member.epoch for member in there)} != {group.generation}:
        return False
    is_one_away = len(there) < len(group.members)
    return state == STABLE or (is_one_away and all(member.has == member.to_have for member in there))
