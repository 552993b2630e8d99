"""A small group: what was done to it, and its history."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from local_cluster.members import Told
from truth.groups.compare import figures_of, owned_after
from truth.groups.happened import Happened, Move
from truth.groups.history import GroupEvent, History, MemberRow, Rebalance
from truth.groups.script import COOPERATIVE, Deed
from truth.model.groups import Call, Holder, skew

START = datetime(2026, 7, 1, 9, tzinfo=UTC)
GROUP = "g"
INSTANCE = "i"
ALL = frozenset(("t", number) for number in range(4))
HALF = frozenset([("t", 0), ("t", 1)])
REST = ALL - HALF
NOTHING: frozenset = frozenset()


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def holder(member_id: str, partitions: frozenset) -> Holder:
    return Holder(
        member_id, member_id[0], INSTANCE if member_id.startswith("b") else None, partitions
    )


def call(
    seconds: float, member_id: str, what: str, generation: int, partitions: frozenset = frozenset()
) -> Call:
    return Call(
        member_id[0], Told(at(seconds), what, member_id, generation, partitions, frozenset())
    )


def happened(
    action: str,
    begun: float,
    *holders: Holder,
    before: tuple[Holder, ...],
    calls: tuple[Call, ...] = (),
) -> Happened:
    return Happened(
        group=GROUP,
        kind=COOPERATIVE,
        step=(Deed(action, "x"),),
        began_at=at(begun),
        settled_at=at(begun + 5),
        before={each.member_id: each for each in before},
        after={each.member_id: each for each in holders},
        calls=calls,
    )


A_ALONE, A_HALF = holder("a-1", ALL), holder("a-1", HALF)
B_FIRST, B_AGAIN, B_ALONE = holder("b-1", REST), holder("b-2", REST), holder("b-2", ALL)
HAPPENED = [
    happened("join", 0, A_ALONE, before=(), calls=(call(2.1, "a-1", "assigned", 1, ALL),)),
    happened(
        "join",
        10,
        A_HALF,
        B_FIRST,
        before=(A_ALONE,),
        calls=(
            call(12.1, "a-1", "revoked", 2, REST),
            call(12.1, "a-1", "assigned", 2),
            call(12.1, "b-1", "assigned", 2),
            call(13.1, "a-1", "assigned", 3),
            call(13.1, "b-1", "assigned", 3, REST),
        ),
    ),
    happened(
        "restart",
        20,
        A_HALF,
        B_AGAIN,
        before=(A_HALF, B_FIRST),
        calls=(call(20.5, "b-1", "revoked", 3, REST), call(22, "b-2", "assigned", 3, REST)),
    ),
    happened("move", 30, A_HALF, B_AGAIN, before=(A_HALF, B_AGAIN)),
    happened(
        "crash",
        40,
        B_ALONE,
        before=(A_HALF, B_AGAIN),
        calls=(call(42.1, "b-2", "assigned", 4, HALF),),
    ),
    happened("expire", 60, before=(B_ALONE,), calls=(call(60.1, "b-2", "revoked", 4, ALL),)),
]
MOVES = [Move(1, at(30), at(33), {GROUP: 2})]


def person(before: Holder | None, after: Holder | None) -> MemberRow:
    one = after or before
    return MemberRow(
        member_id=one.member_id,
        prev_member_id=None,
        instance_id=one.instance_id,
        client_id=one.client_id,
        change="joined" if before is None else "left" if after is None else "stayed",
        before=frozenset() if before is None else before.partitions,
        after=frozenset() if after is None else after.partitions,
    )


def rebalance(
    prev: int,
    generation: int,
    began: float,
    reasons: tuple[str, ...],
    *people: MemberRow,
    end_reason="completed",
    phases=1,
):
    counted = figures_of(people)
    had = counted["partitions_kept"] + counted["partitions_moved"] + counted["partitions_lost"]
    return Rebalance(
        group_id=GROUP,
        group_type="classic",
        generation=generation,
        prev_generation=prev,
        skipped_generations=0,
        began_before=at(began),
        ended_before=at(began + phases - 1),
        end_reason=end_reason,
        assignor=None if end_reason == "emptied" else "cooperative-sticky",
        mode=None if end_reason == "emptied" else "cooperative",
        phases=phases,
        **counted,
        stickiness=counted["partitions_kept"] / had if had else None,
        assignment_skew=skew(owned_after(people)),
        reasons=reasons,
        since_previous_ms=None,
        people=people,
        followed_coordinator_move=False,
    )


REBALANCES = [
    rebalance(0, 1, 2, ("member_joined",), person(None, A_ALONE)),
    rebalance(
        1, 3, 12, ("member_joined",), person(A_ALONE, A_HALF), person(None, B_FIRST), phases=2
    ),
    rebalance(3, 4, 42, ("member_left",), person(A_HALF, None), person(B_AGAIN, B_ALONE)),
    rebalance(
        4,
        5,
        62,
        ("static_member_left", "group_emptied"),
        person(B_ALONE, None),
        end_reason="emptied",
    ),
]
REBALANCES[1] = replace(REBALANCES[1], began_before=at(11.2))  # The record of its first generation.
REBALANCES[1:] = [
    replace(
        row,
        since_previous_ms=since,
        followed_coordinator_move=move is not None,
        coordinator_move_id=move,
    )
    for row, since, move in zip(
        REBALANCES[1:], (9_200, 29_000, 20_000), (None, "e-3", None), strict=True
    )
]
EVENTS = [
    GroupEvent("e-1", GROUP, "created", at(1.9), at(1.9)),
    GroupEvent("e-2", GROUP, "static_restart", at(21.9), at(21.9), "b-2", "b-1", INSTANCE),
    GroupEvent("e-3", GROUP, "coordinator_moved", at(29), at(31), broker_id=2, prev_broker_id=1),
]
HISTORY = History(REBALANCES, EVENTS)


def with_row(number: int, **changes: object) -> History:
    rows = [*REBALANCES]
    rows[number] = replace(rows[number], **changes)
    return replace(HISTORY, rebalances=rows)


def with_person(number: int, person: int, **changes: object) -> History:
    people = [*REBALANCES[number].people]
    people[person] = replace(people[person], **changes)
    return with_row(number, people=tuple(people))


def with_event(number: int, **changes: object) -> History:
    events = [*EVENTS]
    events[number] = replace(events[number], **changes)
    return replace(HISTORY, events=events)
