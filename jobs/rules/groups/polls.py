"""Rebalances of one group, its members and events, as polls show them; and when those of classic
groups began.

Polls bound times, and what came and went between two of them is one rebalance. Epochs still count:
each rise of a group epoch is a change that the coordinator saw. Classic groups tell no generation,
and what they have only while Stable (ClassicGroup.describe): there a rebalance shows by its states,
or by members, subscriptions or assignments that differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from jobs.rules.groups import classic
from jobs.rules.groups.compare import by_identity, tells_subscriptions
from jobs.rules.groups.rebalance_rows import RebalanceBegin
from jobs.rules.groups.rows import COMPLETED, CONVERTED, DELETED, EMPTIED, GroupOutput, skipped
from jobs.rules.groups.state import (
    AWAY,
    CLASSIC,
    MODES,
    STREAMS,
    Member,
    Moment,
    Rebalance,
    Row,
    Standing,
    gathered,
)

_DESCRIPTION = ("group_type", "protocol_type", "state", "members")

REBALANCING = ("PreparingRebalance", "CompletingRebalance")
GONE = "gone"


@dataclass(frozen=True)
class Open:
    """A rebalance that has not ended, and the group as last seen."""

    rebalance: Rebalance
    now: Standing


def described(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that say how a group was. If a group could not be described when it was first
    listed, the row after that tells since when it may have been there.
    """
    found: list[dict[str, Any]] = []
    listed: Row | None = None
    for row in rows:
        if all(row[name] is None for name in _DESCRIPTION):
            listed = row
            continue
        if listed is not None and listed["end_reason"] != GONE:
            since = {name: listed[name] for name in ("prev_poll", "prev_sent_at")}
            found.append({**row, **since})
        else:
            found.append(row)
        listed = None
    return found


def polled(rows: Iterable[Row], open_: Open | None = None) -> tuple[Open | None, GroupOutput]:
    """The rebalance that is open after some polls, and what they tell; of an open one as far as it
    is known.

    `rows`: of silver.group_snapshots, in order, times as aware datetimes, that began (`is_new`) or
    ended.
    """
    output = GroupOutput()
    for row in rows:
        if row["is_new"]:
            open_ = _follow(row, open_, output)
        if row["end_reason"] == GONE:
            _tell_deleted(row, open_, output)
            open_ = None
    if open_ is not None:
        _tell(open_, output)
    return open_, output


def begins(rows: Iterable[Row], open_: RebalanceBegin | None) -> list[RebalanceBegin]:
    """Rows of internal.rebalance_begins: stretches in which a classic group rebalances, the last
    one open if it has no end, and changes from one state at rest to another between two polls.
    """
    stretches: list[RebalanceBegin] = []
    for row in rows:
        end = row["valid_to"] if row["end_reason"] == GONE else None
        if row["is_new"]:
            is_classic, rebalanced = type_of(row) == CLASSIC, row["prev_state"] in REBALANCING
            rebalances = is_classic and row["state"] in REBALANCING
            if open_ is None and (
                rebalances or (is_classic and row["prev_state"] is not None and not rebalanced)
            ):
                after = None if rebalanced else row["prev_sent_at"]
                open_ = {
                    "began_after": after,
                    "began_before": row["valid_from"],
                    "ended_before": None,
                }
            end = end if rebalances else row["valid_from"]
        if open_ is not None and end is not None:
            stretches.append({**open_, "ended_before": end})
            open_ = None
    return stretches if open_ is None else [*stretches, open_]


def type_of(row: Row) -> str:
    """Type of a group. Before 3.8 types are not told: there are only classic groups."""
    return row["group_type"] or CLASSIC


def _follow(row: Row, open_: Open | None, output: GroupOutput) -> Open | None:
    """The rebalance that is open after a state, if any."""
    at = Moment(row["valid_from"], row["prev_sent_at"], poll=row["first_poll"])
    prev = {
        name.removeprefix("prev_"): value for name, value in row.items() if name.startswith("prev_")
    }
    is_first, was_seen = (
        prev["state"] is None and prev["group_type"] is None,
        row["prev_poll"] is not None,
    )
    is_converted, group = (
        not is_first and type_of(prev) != type_of(row),
        Standing(type_of(row), row["group_epoch"]),
    )
    if is_first and was_seen:
        output.event("created", at, group)
    if is_converted:
        output.event("converted", at, group, prev_group_type=type_of(prev))
        if open_ is not None:
            _tell(open_, output, CONVERTED, at)
            open_ = None
    now = _standing(row)
    if now is None:
        return open_
    is_settled = _is_settled(now, row["state"])
    if open_ is not None:
        rebalance = open_.rebalance
    else:
        before = (Standing() if was_seen else None) if is_first else _standing(prev)
        if not _begins(before, now, is_settled=is_settled):
            if before is not None:
                output.restarts(at, before.members, now)
            return None
        # A static member that has just come back has what it is to have.
        rebalance = (
            Rebalance(at, before.at_target) if before else Rebalance(replace(at, after=None))
        )
        rebalance = replace(
            rebalance, prev_group_type=type_of(prev) if is_converted else None, topics=_topics(prev)
        )
    open_ = Open(replace(rebalance, topics=rebalance.topics | _topics(row)), now)
    if not is_settled:
        return open_
    _tell(open_, output, COMPLETED if now.members else EMPTIED, at)
    return None


def _begins(before: Standing | None, now: Standing, *, is_settled: bool) -> bool:
    """Whether a group rebalanced since `before` (None: not known; without a type: there was none),
    or does now.
    """
    if before is None or before.group_type is None:
        return not is_settled or (before is not None and bool(now.members))
    return _mark(before) != _mark(now) or (now.group_type == CLASSIC and not is_settled)


def _mark(group: Standing) -> tuple[Any, ...]:
    """The part of a group that only a rebalance changes."""
    if group.group_type != CLASSIC:
        return group.group_type, group.generation
    asked = {
        who: (member.topics, member.has) for who, (_, member) in by_identity(group.members).items()
    }
    return group.group_type, asked, group.assignor, group.protocol_type


def _is_settled(group: Standing, state: str | None) -> bool:
    """Whether no rebalance is open. A static member that is away reaches no epoch, but may have all
    that it is to have.
    """
    if group.group_type == CLASSIC:
        return state not in REBALANCING
    if not group.members:
        return True
    # A share group is Stable with any member (ShareGroup.maybeUpdateState), so epochs have to agree
    # too.
    there = [member for member in group.members.values() if member.epoch != AWAY]
    if {group.target_epoch, *(member.epoch for member in there)} != {group.generation}:
        return False
    # Kafka's state says more than that where a member is away, and of a streams group whose topics
    # are not there (StreamsGroup.maybeUpdateGroupState): nothing is assigned then, and nobody waits
    # for anything.
    is_other = len(there) < len(group.members) or state == "NotReady"
    has_all = all(member.has == member.to_have for member in group.members.values())
    return state == "Stable" or (is_other and has_all)


def _tell_deleted(row: Row, open_: Open | None, output: GroupOutput) -> None:
    """A group that is gone. Only one without members can be deleted, so all of them had left."""
    at, last = (
        Moment(row["valid_to"], row["last_seen_sent_at"], poll=row["superseded_poll"]),
        _standing(row),
    )
    output.event("deleted", at, Standing(type_of(row)))
    if open_ is None and last is not None and last.members:
        open_ = Open(Rebalance(at, last.at_target, topics=_topics(row)), last)
    if open_ is not None:
        nobody = Standing(group_type=open_.now.group_type, protocol_type=open_.now.protocol_type)
        _tell(replace(open_, now=nobody), output, DELETED, at)


def _tell(
    open_: Open, output: GroupOutput, end_reason: str | None = None, end: Moment | None = None
) -> None:
    between = skipped(open_.rebalance.before, open_.now)
    # Epochs that fell were not counted on.
    rebalance = replace(
        open_.rebalance, skipped_generations=None if (between or 0) < 0 else between
    )
    row, before = output.rebalance(rebalance, open_.now, end_reason, end), rebalance.before
    if row["reasons"] != ["same_members"] or before is None or open_.now.group_type == CLASSIC:
        return
    grew = row["partitions_added"] or row["partitions_lost"]
    if grew and tells_subscriptions(before) and tells_subscriptions(open_.now):
        row["reasons"] = ["partitions_changed"]


def _standing(row: Row) -> Standing | None:
    """The group as the row describes it; None where it may not be described."""
    if row["members"] is None:
        return None
    type_, protocol_type, assignor = type_of(row), row["protocol_type"], row["assignor"]
    is_consumer = type_ == CLASSIC and protocol_type == classic.CONSUMER_PROTOCOL
    mode = classic.MODES.get(assignor) if is_consumer else MODES.get(type_)
    members = {
        member["member_id"]: _member(type_, row["topology_epoch"], member)
        for member in row["members"]
    }
    now = Standing(type_, row["group_epoch"], protocol_type, assignor, mode)
    return replace(now, target_epoch=row["target_epoch"], members=members)


def _member(type_: str, topology_epoch: int | None, member: Row) -> Member:
    names = ("active_tasks", "target_active_tasks") if type_ == STREAMS else ("assigned", "target")
    has, to_have = (None if member[name] is None else gathered(member[name]) for name in names)
    asked = {
        "topics": member["topics"],
        "pattern": member["regex"],
        "rack": member["rack"],
        "topology_epoch": topology_epoch,
    }
    by_id = type_ not in (CLASSIC, STREAMS)
    return Member.of(member, **asked, has=has, to_have=to_have, by_id=by_id, epoch=member["epoch"])


def _topics(row: Row) -> dict[str, str]:
    """Topic ids -> names."""
    named = [
        each
        for member in row["members"] or ()
        for part in ("assigned", "target")
        for each in member[part] or ()
    ]
    return {each["topic_id"]: each["topic"] for each in named if each["topic_id"] and each["topic"]}
