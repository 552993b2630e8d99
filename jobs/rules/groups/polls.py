"""Rebalances of one group, its members and events, as polls show them. Pure Python, a state at a time.

Polls bound times, and what came and went between two of them is one rebalance. Epochs still count: each rise of a group epoch is a
change that the coordinator saw. Classic groups tell no generation, and what they have only while Stable (ClassicGroup.describe):
there a rebalance shows by its states, or by members, subscriptions or assignments that differ.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from jobs.rules.groups.classic import CONSUMER_PROTOCOL, COOPERATIVE_ASSIGNORS, EAGER_ASSIGNORS
from jobs.rules.groups.epochs import MODES
from jobs.rules.groups.moves import identity, restarts
from jobs.rules.groups.rows import COMPLETED, CONVERTED, DELETED, EMPTIED, End, Row, Told
from jobs.rules.groups.state import CLASSIC, STREAMS, Member, Partitions, Rebalance, Standing, State, to_ms

PREPARING, COMPLETING = "PreparingRebalance", "CompletingRebalance"
REBALANCING = (PREPARING, COMPLETING)
STABLE = "Stable"
AWAY = -2
"""Epoch of a static member that left and is expected back: ConsumerGroupHeartbeatRequest.LEAVE_GROUP_STATIC_MEMBER_EPOCH."""

ABSENT = "absent"
NOBODY = Standing()
"""A group before it was made."""


@dataclass
class Polled:
    """Rows of gold.rebalances, gold.rebalance_members and gold.group_events; members have `poll`, that of their rebalance."""

    rebalances: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)


def polled(rows: Iterable[Mapping[str, Any]]) -> Polled:
    """What the polls of a group tell. `rows`: its rows of silver.group_snapshots, times as aware datetimes, with `is_new`.

    New are those that began since the last run or, where a rebalance goes on, since the poll that showed it first; of others only
    the end is told. A rebalance that is not over is told as far as it is known.

    Given by the job: ids, cluster, group, log_partition, unassigned, coordinator, and what moved it. Not told by polls: offsets, phases,
    group_leader, since_previous_ms. Of a member's partitions the topic stands beside the topic id where it was told.
    """
    told = Polled()
    going_on: _Begun | None = None
    for row in sorted(rows, key=lambda row: str(row["first_poll"])):
        if row["is_new"]:
            going_on = _follow(row, going_on, told)
        if row["ended_as"] == ABSENT:
            _tell_deleted(row, going_on, told)
            going_on = None
    if going_on is not None:
        _tell_rebalance(going_on, told)
    return told


@dataclass(frozen=True)
class _Bounds:
    """What came after one poll and by another."""

    poll: str
    after: datetime | None
    by: datetime


@dataclass(frozen=True)
class _Seen:
    """A group as one poll described it. `settled`: no rebalance goes on."""

    standing: Standing
    settled: bool
    topics: Mapping[str, str]
    """Topic ids -> names."""


@dataclass(frozen=True)
class _Begun:
    """A rebalance and the group as last seen. `before`: None where that is not known."""

    began: _Bounds
    before: Standing | None
    now: Standing
    prev_group_type: str | None = None
    topics: Mapping[str, str] = field(default_factory=dict)


def _follow(row: Mapping[str, Any], going_on: _Begun | None, told: Polled) -> _Begun | None:
    """The rebalance that goes on after a state, if any."""
    bounds = _Bounds(row["first_poll"], row["prev_sent_at"], row["first_seen_at"])
    is_first = row["prev_state"] is None and row["prev_group_type"] is None
    if is_first and row["prev_poll"] is not None:
        _tell_event("created", bounds, told, group_type=_type(row), generation=row["group_epoch"])
    converted_from = None if is_first or _type(row, "prev_") == _type(row) else _type(row, "prev_")
    if converted_from is not None:
        _tell_event(
            "converted",
            bounds,
            told,
            group_type=_type(row),
            prev_group_type=converted_from,
            generation=row["group_epoch"],
        )
    if going_on is not None and converted_from is not None:
        _tell_rebalance(going_on, told, bounds, CONVERTED)
        going_on = None
    now, prev = _seen(row), _seen(row, "prev_")
    if now is None:
        return going_on
    before = (NOBODY if row["prev_poll"] is not None else None) if is_first else prev and _at_rest(prev.standing)
    if going_on is None:
        if not _begins(before, now, converted=converted_from is not None):
            if before is not None:
                _tell_restarts(before, now.standing, bounds, told)
            return None
        if before is None:
            bounds = replace(bounds, after=None)
        going_on = _Begun(bounds, before, now.standing, converted_from, {**(prev.topics if prev else {})})
    going_on = replace(going_on, now=now.standing, topics={**going_on.topics, **now.topics})
    if not now.settled:
        return going_on
    _tell_rebalance(going_on, told, bounds, COMPLETED if now.standing.members else EMPTIED)
    return None


def _begins(before: Standing | None, now: _Seen, *, converted: bool) -> bool:
    """Whether a group rebalanced since `before`, in which no rebalance went on."""
    if before is None:
        return not now.settled
    if before is NOBODY:
        return bool(now.standing.members) or not now.settled
    if converted:
        return True
    if now.standing.group_type == CLASSIC:
        return not now.settled or _asks_and_has(before) != _asks_and_has(now.standing)
    return before.generation != now.standing.generation


def _asks_and_has(classic: Standing) -> tuple[Any, ...]:
    """What of a classic group only a rebalance changes."""
    members = {identity(each, member): (member.topics, member.has) for each, member in classic.members.items()}
    return members, classic.assignor, classic.protocol_type


# --- what a row of silver says ---


def _type(row: Mapping[str, Any], prefix: str = "") -> str:
    """Before 3.8 types are not told: there are only classic groups."""
    return row[f"{prefix}group_type"] or CLASSIC


def _seen(row: Mapping[str, Any], prefix: str = "") -> _Seen | None:
    """The group as the row describes it, or the row before (`prev_`); None where it may not be described."""
    described = row[f"{prefix}members"]
    if described is None:
        return None
    type_, assignor, state = _type(row, prefix), row[f"{prefix}assignor"], row[f"{prefix}state"]
    standing = Standing(
        group_type=type_,
        generation=row[f"{prefix}group_epoch"],
        protocol_type=row[f"{prefix}protocol_type"],
        assignor=assignor,
        mode=_mode(type_, row[f"{prefix}protocol_type"], assignor),
        target_epoch=row[f"{prefix}target_epoch"],
        members={member["member_id"]: _member(type_, row[f"{prefix}topology_epoch"], member) for member in described},
    )
    named = [each for member in described for part in ("assigned", "target") for each in member[part] or ()]
    topics = {each["topic_id"]: each["topic"] for each in named if each["topic_id"] and each["topic"]}
    settled = state not in REBALANCING if type_ == CLASSIC else _has_converged(standing, state)
    return _Seen(standing, settled, topics)


def _mode(type_: str, protocol_type: str | None, assignor: str | None) -> str | None:
    if type_ != CLASSIC:
        return MODES.get(type_)
    if protocol_type != CONSUMER_PROTOCOL:
        return None
    return "eager" if assignor in EAGER_ASSIGNORS else "cooperative" if assignor in COOPERATIVE_ASSIGNORS else None


def _member(type_: str, topology_epoch: int | None, member: Mapping[str, Any]) -> Member:
    if type_ == STREAMS:
        has, to_have = member["active_tasks"], member["target_active_tasks"]
    else:
        has, to_have = member["assigned"], member["target"]
    return Member(
        instance_id=member["instance_id"],
        client_id=member["client_id"],
        client_host=member["client_host"],
        topics=member["topics"],
        pattern=member["regex"],
        topology_epoch=topology_epoch,
        has=_partitions(has),
        to_have=_partitions(to_have),
        by_id=type_ not in (CLASSIC, STREAMS),
        epoch=member["epoch"],
    )


def _partitions(part: Iterable[Mapping[str, Any]] | None) -> Partitions | None:
    """Partitions by topic id, by topic where no id is told, or by subtopology."""
    if part is None:
        return None
    return {
        each["subtopology_id"] if "subtopology_id" in each else each["topic_id"] or each["topic"]: each["partitions"]
        for each in part
    }


def _has_converged(standing: Standing, state: str | None) -> bool:
    """Whether every member that is there has reached the group's epoch; a static one that is away keeps none waiting.

    A share group is Stable with any member (ShareGroup.maybeUpdateState), so its epochs have to agree too.
    """
    there = [member for member in standing.members.values() if member.epoch != AWAY]
    if not standing.members:
        return True
    if {standing.target_epoch, *(member.epoch for member in there)} != {standing.generation}:
        return False
    is_one_away = len(there) < len(standing.members)
    return state == STABLE or (is_one_away and all(member.has == member.to_have for member in there))


def _at_rest(standing: Standing) -> Standing:
    """A group between rebalances: a static member that has just come back has what it is to have."""
    return replace(
        standing,
        members={
            each: member if member.to_have is None else replace(member, has=member.to_have)
            for each, member in standing.members.items()
        },
    )


# --- rows of gold ---


def _tell_rebalance(begun: _Begun, told: Polled, ended: _Bounds | None = None, ended_as: str | None = None) -> None:
    began, before, now = begun.began, begun.before, begun.now
    rebalance = Rebalance(
        first_offset=0,
        last_offset=0,
        began_after=began.after and to_ms(began.after),
        began_by=to_ms(began.by),
        before=before,
        prev_group_type=begun.prev_group_type,
        incomplete=_hidden(before, now),
    )
    end = ended and ended_as and End(ended_as, ended.after and to_ms(ended.after), to_ms(ended.by))
    rows = Told()
    rows.rebalance(State(), rebalance, now, end or None)
    ((key, row),) = rows.rebalances.items()
    if row["reasons"] == ["same_members"] and now.group_type != CLASSIC and (row["added"] or row["lost"]):
        row["reasons"] = ["partitions_changed"]
    told.rebalances.append(
        row
        | dict.fromkeys(("log_partition", "first_offset", "last_offset", "phases"))
        | {"poll": began.poll, "began_after": began.after, "began_by": began.by}
        | (_ends(began, ended) if ended else {})
    )
    told.members += [
        {
            **{name: value for name, value in member.items() if name != "first_offset"},
            "poll": began.poll,
            "began_by": began.by,
            "before": _named(member["before"], begun.topics),
            "after": _named(member["after"], begun.topics),
        }
        for member in rows.members[key]
    ]


def _hidden(before: Standing | None, now: Standing) -> int | None:
    """Epochs between the two that no poll showed as completed; None where they were not counted on."""
    if before is None or before.generation is None or now.generation is None or now.generation <= before.generation:
        return None
    return now.generation - before.generation - 1


def _ends(began: _Bounds, ended: _Bounds) -> Row:
    whole = timedelta(milliseconds=1)
    return {
        "ended_after": ended.after,
        "ended_by": ended.by,
        "duration_ms_min": max(0, (ended.after - began.by) // whole) if ended.after else 0,
        "duration_ms_max": (ended.by - began.after) // whole if began.after else None,
    }


def _named(parts: list[Row] | None, topics: Mapping[str, str]) -> list[Row] | None:
    return parts and [{**each, "topic": each["topic"] or topics.get(each["topic_id"])} for each in parts]


def _tell_event(event: str, bounds: _Bounds, told: Polled, **columns: Any) -> None:
    told.events.append(
        {"event": event, "began_after": bounds.after, "began_by": bounds.by, "poll": bounds.poll, **columns}
    )


def _tell_restarts(before: Standing, now: Standing, bounds: _Bounds, told: Polled) -> None:
    for member_id, prev_member_id in restarts(before.members, now.members).items():
        member = now.members[member_id]
        _tell_event(
            "static_restart",
            bounds,
            told,
            group_type=now.group_type,
            generation=now.generation,
            member_id=member_id,
            prev_member_id=prev_member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
        )


def _tell_deleted(row: Mapping[str, Any], going_on: _Begun | None, told: Polled) -> None:
    """A group that is gone. Only one without members can be deleted, so those that were seen last had left before."""
    bounds = _Bounds(row["superseded_poll"], row["last_seen_sent_at"], row["superseded_at"])
    _tell_event("deleted", bounds, told, group_type=_type(row))
    last = _seen(row)
    if going_on is None and last is not None and last.standing.members:
        going_on = _Begun(bounds, _at_rest(last.standing), last.standing, topics=last.topics)
    if going_on is not None:
        gone = Standing(group_type=going_on.now.group_type, protocol_type=going_on.now.protocol_type)
        _tell_rebalance(replace(going_on, now=gone), told, bounds, DELETED)
