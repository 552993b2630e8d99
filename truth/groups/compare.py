"""History held against what happened: every rebalance once, with the right members, reasons, moves
and phases, in time, and nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from truth.groups.happened import Happened, Move
from truth.groups.history import GroupEvent, History, MemberRow, Rebalance
from truth.groups.score import Score
from truth.groups.script import CLASSIC_REASONS, CRASHES, REASONS, WITHOUT_REBALANCE
from truth.groups.storms import compare_loops, compare_storms
from truth.model.groups import Holders, Owned, Round, figures, rounds, skew

TOLERANCE: Final = timedelta(milliseconds=50)
"""Between clocks of members and brokers, all of one machine, cut to the millisecond."""
LOOK_AHEAD: Final = timedelta(seconds=15)
"""A rebalance that begins so soon after the first poll that showed a move followed it; two of the
intervals of these polls are less.
"""


def compare(
    happened: Sequence[Happened], history: History, moves: Sequence[Move] | None = None
) -> Score:
    """One group's steps against the rows of that group.

    `moves` of coordinators are compared where they are given.
    """
    group = happened[0].group
    rows = [row for row in history.rebalances if row.group_id == group]
    events = [event for event in history.events if event.group_id == group]
    score = Score(len(happened), len(rows), sum(len(row.people) for row in rows), len(events))
    score.faults += [
        f"nothing was done then: {row}"
        for row in rows
        if not any(_within(row.began_before, one) for one in happened)
    ]
    score.faults += _chain(rows)
    generation = 0
    for one in happened:
        mine = [row for row in rows if _within(row.began_before, one)]
        expected = rounds_of(one, generation)
        generation = max([generation, *(each.generation for each in expected or ())])
        score.faults += [f"{one}: {fault}" for fault in _step(one, mine, expected)]
    score.faults += [f"{row}: {fault}" for row in rows for fault in _row(row, happened[0])]
    score.faults += _events(happened, events)
    score.faults += [*compare_storms(happened, history), *compare_loops(happened, history)]
    if moves is not None:
        score.faults += _moves(group, rows, events, moves)
    return score


def rounds_of(one: Happened, generation: int) -> list[Round] | None:
    """The rebalances of a classic group that its members' callbacks tell of a step; `generation` is
    the one before it. None: its members tell none.
    """
    if one.kind.group_type != "classic":
        return None
    emptied = bool(one.before) and not one.after
    return rounds(one.calls, generation, quits=one.left, eager=one.kind.eager, emptied=emptied)


def _step(
    one: Happened, rows: Sequence[Rebalance], expected: Sequence[Round] | None
) -> Iterator[str]:
    least, most = counts(one, expected)
    if not least <= len(rows) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        yield f"{len(rows)} rebalances and not {wanted}: {'; '.join(map(str, rows)) or 'none'}"
    if not rows:
        return
    if expected is not None and (told := _called_back(rows, expected)) != list(expected):
        yield f"its members were called back {list(expected)}, history has {told}"
    yield from _reasons(one, rows)
    yield from _members(one, rows)
    yield from _times(one, rows)
    overtaken = overtakes(one)
    for row in rows:
        if overtaken is not None and (row.skipped_generations or 0) > overtaken:
            yield f"{row.skipped_generations} skipped generations, where one thing was done: {row}"
        wanted = end_reason(one, is_last=row is rows[-1])
        if row.end_reason != wanted:
            yield f"ended as {row.end_reason} and not {wanted}: {row}"


def end_reason(one: Happened, *, is_last: bool) -> str:
    """Why a rebalance of a step ended."""
    return "emptied" if is_last and not one.after else "completed"


def _called_back(rows: Sequence[Rebalance], expected: Sequence[Round]) -> list[Round]:
    """The rebalances of history as callbacks tell of them. A late callback tells the generation of
    then: a generation that nobody was called back of is part of the one that followed it at once.
    """
    told_of = {each.generation for each in expected}
    found: list[Round] = []
    for row in rows:
        told = Round(row.prev_generation or 0, row.generation or 0, row.phases or 0)
        if (
            found
            and found[-1].generation == told.prev_generation
            and told.prev_generation not in told_of
        ):
            told = replace(told, prev_generation=found.pop().prev_generation)
        found.append(told)
    return found


def counts(one: Happened, expected: Sequence[Round] | None) -> tuple[int, int]:
    """How many rebalances there are to be, at least and at most."""
    actions = [deed.action for deed in one.step]
    if expected is not None:
        least = len(expected)
        most = least + sum(
            each.generation - each.prev_generation - each.phases for each in expected
        )
        if not WITHOUT_REBALANCE.issuperset(actions):
            return max(1, least), max(1, most)
        return 0, 0
    each = [
        0 if action in WITHOUT_REBALANCE else 1 + CRASHES if action == "crash_loop" else 1
        for action in actions
    ]
    return min(1, sum(each)) if len(each) > 1 else sum(each), sum(each)


def overtakes(one: Happened) -> int | None:
    """How many epochs of a step another may overtake; None where several things were done."""
    if len(one.step) > 1 or one.step[0].action == "crash_loop":
        return None
    had, has = (
        {partition for holder in holders.values() for partition in holder.partitions}
        for holders in (one.before, one.after)
    )
    # A share group has an epoch more once new partitions have their state, whether its members have
    # reached the one before or not.
    return 1 if one.kind.protocol == "share" and has - had else 0


def reasons_of(one: Happened) -> tuple[set[str], set[str]]:
    """The reasons that history must give, and those that it may give."""
    must = {reason for deed in one.step for reason in REASONS[deed.action]}
    must |= set() if one.after else {"group_emptied"}
    if one.kind.group_type != "classic":
        return must, must
    more = {reason for deed in one.step for reason in CLASSIC_REASONS.get(deed.action, ())}
    return must, must | more


def compare_reasons(
    must: AbstractSet[str], may: AbstractSet[str], rows: Sequence[Rebalance]
) -> Iterator[str]:
    """The reasons that history gives for a step."""
    said = {reason for row in rows for reason in row.reasons or ()}
    if missing := must - said:
        yield f"no {', '.join(sorted(missing))} among the reasons {sorted(said)}"
    if more := said - may:
        yield f"{', '.join(sorted(more))} is no reason"


def _reasons(one: Happened, rows: Sequence[Rebalance]) -> Iterator[str]:
    must, may = reasons_of(one)
    if one.joined and "member_joined" not in may:
        # thrown out and back: a slow machine
        yield f"{sorted(one.joined)} joined, which the script has not"
    yield from compare_reasons(must, may, rows)
    if any(not row.reasons for row in rows):
        yield "no reasons at all"


def _members(one: Happened, rows: Sequence[Rebalance]) -> Iterator[str]:
    yield from compare_ends(one, rows)
    for change, wanted in (("joined", one.joined), ("left", one.left)):
        told = changed(change, rows)
        if sorted(told) != sorted(wanted):
            yield f"{change} are {sorted(wanted)}, history has {sorted(told)}"


def changed(change: str, rows: Sequence[Rebalance]) -> list[str]:
    """The ids of members that joined, or left."""
    return [each.member_id for row in rows for each in row.people if each.change == change]


def compare_ends(one: Happened, rows: Sequence[Rebalance]) -> Iterator[str]:
    """Who had what before the first rebalance of a step, and after the last."""
    before = {
        each.prev_member_id or each.member_id: each
        for each in rows[0].people
        if each.change != "joined"
    }
    after = {each.member_id: each for each in rows[-1].people if each.change != "left"}
    yield from _holders("before", one.before, before)
    yield from _holders("after", one.after, after)


def _holders(when: str, holders: Holders, people: Mapping[str, MemberRow]) -> Iterator[str]:
    """Who had what, as the coordinator described it, against rows of members."""
    if holders.keys() != people.keys():
        yield f"members {when} it are {sorted(holders)}, history has {sorted(people)}"
        return
    for member_id, holder in holders.items():
        row = people[member_id]
        has = row.before if when == "before" else row.after
        if has != holder.partitions:
            yield (
                f"{member_id} has {sorted(holder.partitions)} {when} it, in history "
                f"{has if has is None else sorted(has)}"
            )
        if row.instance_id != holder.instance_id:
            yield f"{member_id} is {holder.instance_id}, in history {row.instance_id}"
        if row.client_id is None or not row.client_id.startswith(holder.client_id):
            yield f"{member_id} has the client id {holder.client_id}, in history {row.client_id}"


def _times(one: Happened, rows: Sequence[Rebalance]) -> Iterator[str]:
    for row in rows:
        if row.ended_before is None:
            yield f"still goes on: {row}"
            continue
        if not _within(row.ended_before, one) or row.ended_before < row.began_before:
            yield f"ended out of time: {row}, the step at {one.settled_at:%H:%M:%S.%f}"
        if one.kind.group_type == "classic":
            for call in one.calls:
                told = call.told
                if (
                    told.what == "assigned"
                    and told.generation == row.generation
                    and told.at < row.ended_before - TOLERANCE
                ):
                    yield (
                        f"{call.client_id} was called back at {told.at:%H:%M:%S.%f}, before the "
                        f"end: {row}"
                    )


def _chain(rows: Sequence[Rebalance]) -> Iterator[str]:
    """The order of rows: each generation, and each begin, after the row before it."""
    for before, after in pairwise(rows):
        if after.prev_generation != before.generation:
            yield f"{after} does not follow {before}"
        if before.ended_before is None:
            continue
        since = round((after.began_before - before.ended_before) / timedelta(milliseconds=1))
        if after.since_previous_ms is None or abs(after.since_previous_ms - since) > 1:
            yield (
                f"{after}: {after.since_previous_ms} ms since the one before, which ended {since} "
                "ms before"
            )


def _row(row: Rebalance, one: Happened) -> Iterator[str]:
    """A row by itself: of its kind, and its figures as its members make them."""
    kind = one.kind
    mode = "eager" if kind.eager else "cooperative"
    if row.group_type != kind.group_type:
        yield f"type {row.group_type}"
    if row.mode != mode and kind.protocol != "share" and row.members:
        yield f"mode {row.mode} and not {mode}"
    if kind.assignor is not None and row.assignor != kind.assignor and row.members:
        yield f"assignor {row.assignor} and not {kind.assignor}"
    between = (row.generation or 0) - (row.prev_generation or 0) - (row.phases or 0)
    # A share group has an epoch more where partitions first get their state; the one before it may
    # have completed.
    if (
        row.skipped_generations is None
        or not (0 if kind.protocol == "share" else between) <= row.skipped_generations <= between
    ):
        yield f"{row.skipped_generations} skipped generations and not {between}"
    yield from compare_figures(row)


def compare_figures(row: Rebalance) -> Iterator[str]:
    """The figures of a rebalance against those that its members make."""
    wanted = figures_of(row.people)
    if wrong := {name: getattr(row, name) for name in wanted if getattr(row, name) != wanted[name]}:
        yield f"its members make {wanted}, it says {wrong}"
    before = wanted["partitions_kept"] + wanted["partitions_moved"] + wanted["partitions_lost"]
    stickiness = wanted["partitions_kept"] / before if before else None
    if row.stickiness != stickiness and (
        stickiness is None or row.stickiness is None or abs(stickiness - row.stickiness) > 1e-9
    ):
        yield f"stickiness {row.stickiness} and not {stickiness}"
    skewed = skew(owned_after(row.people))
    if row.assignment_skew != skewed:
        yield f"assignment_skew {row.assignment_skew} and not {skewed}"


def figures_of(people: Sequence[MemberRow]) -> dict[str, int]:
    """The figures of a rebalance by its members."""
    before = {
        each.member_id: each.before or ()
        for each in people
        if each.change != "joined" or each.before
    }
    restarted = [each.change for each in people].count("restarted")
    return figures(before, owned_after(people), restarted=restarted)


def owned_after(people: Sequence[MemberRow]) -> Owned:
    """Who had what after a rebalance."""
    return {
        each.member_id: each.after or () for each in people if each.change != "left" or each.after
    }


def _events(happened: Sequence[Happened], events: Sequence[GroupEvent]) -> Iterator[str]:
    wanted: list[tuple[str, str | None, str | None]] = [("created", None, None)]
    wanted += [
        ("static_restart", was, now) for one in happened for was, now in one.restarted.items()
    ]
    told = [event for event in events if event.event != "coordinator_moved"]
    for event in told:
        each = (event.event, event.prev_member_id, event.member_id)
        if each in wanted:
            wanted.remove(each)
        else:
            yield f"nothing was done that makes: {event}"
            continue
        of = (
            happened[0]
            if event.event == "created"
            else next(one for one in happened if event.prev_member_id in one.restarted)
        )
        if not _within(event.began_before, of):
            yield f"out of time: {event}, of {of}"
        if (
            event.event == "static_restart"
            and event.instance_id != of.before[event.prev_member_id or ""].instance_id
        ):
            yield f"another instance: {event}"
    yield from (
        f"{happened[0].group}: nothing is said of {' '.join(filter(None, each))}" for each in wanted
    )


def _moves(
    group: str, rows: Sequence[Rebalance], events: Sequence[GroupEvent], moves: Sequence[Move]
) -> Iterator[str]:
    left = [event for event in events if event.event == "coordinator_moved"]
    shown: list[tuple[Move, Sequence[GroupEvent]]] = []
    for move in (move for move in moves if group in move.groups):
        # Between the two there may have been none for a while.
        found = [
            event
            for event in left
            if event.began_before >= move.began_at
            and (event.began_after is None or event.began_after <= move.ended_at)
        ]
        left = [event for event in left if event not in found]
        if found:
            shown.append((move, found))
        path = [each for event in found for each in (event.prev_broker_id, event.broker_id)]
        if not path or (path[0], path[-1]) != (move.broker_id, move.groups[group]):
            yield (
                f"{group}: its coordinator moved from {move.broker_id} to {move.groups[group]}, "
                f"history has {path}"
            )
    yield from (f"{group}: its coordinator did not move: {event}" for event in left)
    for row in rows:
        followed = [_followed(row, move, found) for move, found in shown]
        if True in followed and not row.followed_coordinator_move:
            yield f"followed a move of the coordinator: {row}"
        if row.followed_coordinator_move and all(each is False for each in followed):
            yield f"followed no move of the coordinator: {row}"
        if row.followed_coordinator_move and row.coordinator_move_id not in {
            event.id for _, found in shown for event in found
        }:
            yield f"followed another move of the coordinator than {row.coordinator_move_id}: {row}"


def _followed(row: Rebalance, move: Move, events: Sequence[GroupEvent]) -> bool | None:
    """Whether a rebalance followed a move, which `events` tell; None where it ended while the
    broker was being stopped.
    """
    if row.ended_before is not None and row.ended_before < move.began_at - TOLERANCE:
        return False
    if row.began_before > max(event.began_before for event in events) + LOOK_AHEAD:
        return False
    return (
        True if row.ended_before is None or row.ended_before > move.ended_at + TOLERANCE else None
    )


def _within(moment: datetime, one: Happened) -> bool:
    return one.began_at - TOLERANCE <= moment <= one.settled_at + TOLERANCE
