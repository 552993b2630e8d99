"""The comparison of groups finds whatever is wrong: history as it was, then spoilt in one place.
And the scripts are what they should be.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from local_cluster.members import Told
from truth.groups.compare import Round, compare, figures, rounds
from truth.groups.happened import Call, Happened, Holder, Move
from truth.groups.history import GroupEvent, History, MemberRow, Rebalance, Storm, history_of
from truth.groups.polled import Shown, compare_polled
from truth.groups.script import (
    CONSUMER,
    COOPERATIVE,
    KINDS,
    RANGE,
    SHARE,
    Deed,
    beginning,
    is_static,
    write,
)
from truth.groups.storms import compare_loops, compare_storms, storms

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
    counted = figures(people)
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


def test_what_happened_agrees_with_its_history():
    score = compare(HAPPENED, HISTORY, MOVES)
    assert score.faults == []
    assert (score.steps, score.rebalances, score.members, score.events) == (6, 4, 6, 3)


@pytest.mark.parametrize(
    ("spoilt", "fault"),
    [
        (replace(HISTORY, rebalances=REBALANCES[:1] + REBALANCES[2:]),
         "0 rebalances and not 1: none"),
        (replace(HISTORY, rebalances=[*REBALANCES[:2], REBALANCES[1], *REBALANCES[2:]]),
         "2 rebalances and not 1"),
        (replace(HISTORY, rebalances=[*REBALANCES, replace(REBALANCES[2], began_before=at(24))]),
         "1 rebalances and not 0"),
        (with_row(2, began_before=at(38)), "nothing was done then"),
        (with_row(1, phases=1), "called back"),
        (with_row(1, generation=2), "called back"),
        (with_row(1, ended_before=at(17)), "ended out of time"),
        (with_row(1, ended_before=at(13.5)), "before the end"),
        (with_row(1, ended_before=None, end_reason=None), "still goes on"),
        (with_row(1, prev_generation=2), "does not follow"),
        (with_row(2, since_previous_ms=1), "1 ms since the one before"),
        (with_row(3, end_reason="completed"), "ended as completed and not emptied"),
        (with_row(1, reasons=("member_joined", "member_left")), "member_left is no reason"),
        (with_row(2, reasons=("same_members",)), "no member_left among the reasons"),
        (with_row(3, reasons=("static_member_left",)), "no group_emptied among"),
        (with_row(3, reasons=()), "no reasons at all"),
        (with_row(1, group_type="consumer"), "type consumer"),
        (with_row(1, mode="eager"), "mode eager"),
        (with_row(1, assignor="range"), "assignor range"),
        (with_row(1, skipped_generations=1), "1 skipped generations and not 0"),
        (with_row(1, skipped_generations=1), "1 skipped generations, where one thing was done"),
        (with_row(1, partitions_moved=1), "it says {'partitions_moved': 1}"),
        (with_row(1, partitions_kept=4), "it says {'partitions_kept': 4}"),
        (with_row(1, members_joined=0), "it says {'members_joined': 0}"),
        (with_row(1, stickiness=1.0), "stickiness 1.0 and not 0.5"),
        (with_row(1, people=REBALANCES[1].people[:1]), "members after it are"),
        (with_person(1, 1, change="stayed"), "joined are ['b-1'], history has []"),
        (with_person(1, 1, instance_id=None), "b-1 is i, in history None"),
        (with_person(1, 1, client_id="z"), "client id b, in history z"),
        (with_person(1, 1, after=HALF), "b-1 has [('t', 2), ('t', 3)] after it"),
        (with_person(1, 0, before=None),
         "a-1 has [('t', 0), ('t', 1), ('t', 2), ('t', 3)] before it, in history None"),
        (with_person(2, 1, member_id="b-1"), "members before it are ['a-1', 'b-2']"),
        (replace(HISTORY, events=EVENTS[1:]), "nothing is said of created"),
        (replace(HISTORY, events=[EVENTS[0], EVENTS[2]]),
         "nothing is said of static_restart b-1 b-2"),
        (replace(HISTORY, events=[*EVENTS, replace(EVENTS[0], event="deleted")]),
         "nothing was done that makes: g deleted"),
        (with_event(1, began_before=at(26)), "out of time: g static_restart"),
        (with_event(1, instance_id="j"), "another instance"),
        (replace(HISTORY, events=EVENTS[:2]), "its coordinator moved from 1 to 2, history has []"),
        (with_event(2, broker_id=3), "history has [1, 3]"),
        (replace(HISTORY,
                 events=[*EVENTS, replace(EVENTS[2], began_before=at(50), began_after=at(49))]),
         "did not move"),
        (with_row(2, followed_coordinator_move=False), "followed a move"),
        (with_row(2, coordinator_move_id="e-1"),
         "followed another move of the coordinator than e-1"),
        (with_row(1, followed_coordinator_move=True), "followed no move"),
        (with_row(3, followed_coordinator_move=True), "followed no move"),
    ],
)  # fmt: skip
def test_each_fault_is_found(spoilt, fault):
    faults = compare(HAPPENED, spoilt, MOVES).faults
    assert any(fault in each for each in faults), faults


@pytest.mark.parametrize("lost", [0, 1, 2, 4, 5])
def test_what_history_has_and_nobody_did_is_found(lost):
    assert compare(HAPPENED[:lost] + HAPPENED[lost + 1 :], HISTORY, MOVES).faults


def test_two_generations_are_one_rebalance_only_when_something_moves_in_the_second():
    step = HAPPENED[1]
    assert rounds(step, 1) == [Round(1, 3, 2)]
    three = (
        *step.calls,
        call(13.1, "a-1", "revoked", 3, HALF),
        call(14.1, "c-1", "assigned", 4, HALF),
    )
    assert rounds(replace(step, calls=three), 1) == [
        Round(1, 4, 3)
    ]  # another came in the middle of it
    kept = [replace(each, told=replace(each.told, partitions=frozenset())) for each in step.calls]
    assert rounds(replace(step, calls=tuple(kept)), 1) == [Round(1, 2, 1), Round(2, 3, 1)]
    assert rounds(HAPPENED[2], 3) == []  # the same generation again
    assert rounds(HAPPENED[5], 4) == [Round(4, 5, 1)]  # called back to nobody


def test_nobody_may_be_called_back_of_a_generation_that_another_follows_at_once():
    in_two = [
        REBALANCES[0],
        replace(REBALANCES[1], generation=2, phases=1),
        replace(REBALANCES[1], prev_generation=2, phases=1),
    ]

    def is_found(*calls: Call) -> bool:
        steps = [HAPPENED[0], replace(HAPPENED[1], calls=calls)]
        found = compare(steps, History(in_two, [])).faults
        return any("called back" in fault or "rebalances and not" in fault for fault in found)

    late = [each for each in HAPPENED[1].calls if each.told.generation == 3]
    assert not is_found(*late)
    assert is_found(*HAPPENED[1].calls)
    assert is_found(*(replace(each, told=replace(each.told, generation=2)) for each in late))
    assert is_found(*(replace(each, told=replace(each.told, generation=4)) for each in late))


def test_of_a_share_group_the_epoch_before_partitions_have_their_state_may_be_overtaken():
    step = replace(happened("grow", 0, A_ALONE, before=(A_HALF,)), kind=SHARE)
    row = replace(
        rebalance(1, 3, 2, ("partitions_changed",), person(A_HALF, A_ALONE)),
        group_type="share",
        mode=None,
        skipped_generations=1,
    )
    overtaken = "1 skipped generations, where one thing was done"
    assert not any(overtaken in fault for fault in compare([step], History([row], [])).faults)
    for wrong in (replace(step, before=step.after), replace(step, kind=CONSUMER)):
        assert any(overtaken in fault for fault in compare([wrong], History([row], [])).faults)


def test_figures_count_partitions_once():
    shared = [
        MemberRow("a", None, None, "a", "stayed", ALL, HALF),
        MemberRow("b", None, None, "b", "joined", frozenset(), HALF | {("t", 9)}),
        MemberRow("c", None, None, "c", "left", frozenset([("u", 0)]), frozenset()),
    ]
    assert figures(shared) == {
        "members": 2, "prev_members": 2, "members_joined": 1, "members_left": 1,
        "members_restarted": 0, "partitions_kept": 2, "partitions_moved": 0, "partitions_added": 1,
        "partitions_lost": 3,
    }  # fmt: skip


def test_rows_become_history():
    person = REBALANCES[0].people[0]
    assigned = [
        {"topic": None, "topic_id": "T", "partitions": [0, 1]},
        {"topic": "u", "topic_id": None, "partitions": [3]},
    ]
    row = {
        **REBALANCES[0].__dict__,
        "rebalance_id": 7,
        "reasons": ["member_joined"],
        "began_after": None,
    }
    del row["people"]
    member = {**person.__dict__, "rebalance_id": 7, "before": None, "after": assigned}
    history = history_of([row], [member], [EVENTS[0].__dict__], topics={"T": "t"})
    wanted = replace(person, before=None, after=frozenset([("t", 0), ("t", 1), ("u", 3)]))
    assert history == History([replace(REBALANCES[0], people=(wanted,))], [EVENTS[0]])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", range(3))
def test_a_script_has_something_of_everything_and_leaves_nobody(kind, seed):
    script = write(seed, kind)
    assert script == write(seed, kind)
    deeds = [deed for step in script.before + script.after for deed in step]
    actions = {deed.action for deed in deeds}
    wanted = {"join", "grow"}
    wanted |= {"restart", "expire"} if kind.static else set()
    wanted |= {"leave", "crash", "pause", "resume", "crash_loop"} if not kind.only_static else set()
    wanted |= {"widen", "narrow"} if kind.protocol != "streams" else set()
    assert wanted <= actions
    live: set[str] = set()
    for deed in deeds:
        assert (deed.member in live) == (
            deed.action not in ("join", "crash_loop")
        ) or deed.action == "grow"
        if deed.action in ("join", "crash_loop"):
            live.add(deed.member)
        elif deed.action in ("leave", "crash", "expire"):
            assert is_static(deed.member) == (deed.action == "expire")
            live.remove(deed.member)
    assert not live
    assert any(len(step) == 2 for step in script.before + script.after)


@pytest.mark.parametrize("kind", [RANGE, CONSUMER], ids=lambda kind: kind.name)
def test_the_beginning_of_a_script_leaves_nobody_too(kind):
    whole = write(281, kind)
    script = beginning(whole, 4, 1)
    assert (script.before, script.after[0]) == (whole.before[:4], whole.after[0])
    gone = [
        deed.member
        for step in script.before + script.after
        for deed in step
        if deed.action != "join"
    ]
    joined = {
        deed.member
        for step in script.before + script.after
        for deed in step
        if deed.action == "join"
    }
    assert joined <= set(gone)
    assert [deed.action for deed in script.after[-1]] == ["leave"]


def test_another_seed_is_another_script():
    assert write(1, COOPERATIVE) != write(2, COOPERATIVE)


# --- storms ---


def joins(count: int, apart: float, client_id: str = "x") -> list[Rebalance]:
    """Rebalances in each of which a client joins."""
    joined = replace(person(None, A_ALONE), client_id=client_id)
    return [rebalance(n, n + 1, n * apart, ("member_joined",), joined) for n in range(count)]


LOOPED = [happened("crash_loop", 0, A_ALONE, before=())]


def storm(kind: str, count: int, apart: float, client_id: str | None = None) -> Storm:
    return Storm(GROUP, kind, client_id, at(0), at((count - 1) * apart), count)


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (joins(2, 60), []),
        (joins(4, 60), [storm("crash_loop", 4, 60, "x")]),
        (joins(6, 60), [storm("storm", 6, 60), storm("crash_loop", 6, 60, "x")]),
        # Less than ten minutes apart: five of them take ten.
        (joins(5, 150), [storm("crash_loop", 5, 150, "x")]),
        (joins(5, 149), [storm("storm", 5, 149), storm("crash_loop", 5, 149, "x")]),
        (joins(3, 300), []),
        ([*joins(3, 60), *joins(1, 0, "y")], [storm("crash_loop", 3, 60, "x")]),
    ],
)
def test_what_lies_in_a_window_that_holds_enough_is_a_storm(rows, wanted):
    assert list(storms(GROUP, rows)) == wanted


def test_a_storm_that_is_missing_or_another_is_found():
    rows = joins(4, 60)
    right = storm("crash_loop", 4, 60, "x")
    assert list(compare_storms(LOOPED, History(rows, [], [right]))) == []
    for told in (
        [],
        [replace(right, rebalances=3)],
        [replace(right, last_before=at(1))],
        [right, right],
    ):
        assert list(compare_storms(LOOPED, History(rows, [], told)))
    # It crashed thrice and stayed, so that it joined four times: less than that was not told as
    # often as it joined.
    assert list(compare_loops(LOOPED, History(rows, [], [right]))) == []
    (fault,) = compare_loops(LOOPED, History(joins(3, 60), [], [storm("crash_loop", 3, 60, "x")]))
    assert fault == "x joined 4 times, 3 are in its crash loop"


# --- of polls ---

B_WAITS = replace(B_FIRST, partitions=NOTHING)
POLLED = [
    replace(
        REBALANCES[0],
        generation=None,
        prev_generation=None,
        began_after=at(-1),
        ended_after=at(1.5),
    ),
    # The two phases, each seen.
    replace(
        rebalance(2, 2, 11.5, ("member_joined",), person(A_ALONE, A_HALF), person(None, B_WAITS)),
        began_after=at(9),
        ended_after=at(11),
    ),
    replace(
        rebalance(2, 2, 13.5, ("same_members",), person(A_HALF, A_HALF), person(B_WAITS, B_FIRST)),
        began_after=at(11.5),
        ended_after=at(13),
    ),
    replace(REBALANCES[2], began_after=at(38), ended_after=at(42)),
    replace(REBALANCES[3], began_after=at(59), ended_after=at(61)),
]
"""What polls tell of HAPPENED."""


EACH_SECOND = [Shown(at(second), at(second + 0.5)) for second in range(100)]


def polled(rows: list[Rebalance], polls: list[Shown] = EACH_SECOND) -> list[str]:
    history = History(rows, EVENTS, [*storms(GROUP, rows)])
    return compare_polled(HAPPENED, history, History(REBALANCES, EVENTS), polls).faults


def test_what_happened_agrees_with_what_polls_told():
    assert polled(POLLED) == []
    one = replace(REBALANCES[1], began_after=at(9), ended_after=at(12))  # and as one
    assert polled([POLLED[0], one, *POLLED[3:]]) == []


@pytest.mark.parametrize(
    ("index", "spoilt", "fault"),
    [
        (0, {"began_after": at(-9), "began_before": at(-5)}, "nothing was done then"),
        (3, {"reasons": ("member_joined",)}, "no member_left among the reasons"),
        (3, {"reasons": ("member_left", "partitions_changed")}, "partitions_changed is no reason"),
        (3, {"end_reason": "emptied"}, "ended as emptied and not completed"),
        (3, {"ended_before": None}, "goes on still"),
        (3, {"ended_after": at(50), "ended_before": at(51)}, "ended out of time"),
        (3, {"ended_before": at(41.9), "ended_after": at(41)}, "the log has no end between"),
        (3, {"ended_after": at(42.6), "ended_before": at(43)}, "the log has no end between"),
        (3, {"members": 5}, "its members make"),
        (3, {"people": POLLED[3].people[:1]}, "members after it are"),
        (1, {"people": ()}, "members before it are"),
        (4, {"people": ()}, "left are"),
    ],
)
def test_each_fault_of_polls_is_found(index, spoilt, fault):
    rows = [replace(row, **spoilt) if n == index else row for n, row in enumerate(POLLED)]
    assert any(fault in each for each in polled(rows))


def test_of_a_share_group_polls_may_show_the_epoch_before_partitions_have_their_state():
    step = replace(happened("grow", 0, A_ALONE, before=(A_HALF,)), kind=SHARE)
    share = {"group_type": "share", "mode": None, "ended_after": at(0)}
    rows = [
        replace(
            rebalance(1, 2, 1, ("same_members",), person(A_HALF, A_HALF)),
            began_after=at(-1),
            **share,
        ),
        replace(
            rebalance(2, 3, 2, ("partitions_changed",), person(A_HALF, A_ALONE)),
            began_after=at(1),
            **share,
        ),
    ]

    def is_found(one) -> bool:
        found = compare_polled([one], History(rows, []), History([], []), EACH_SECOND).faults
        return any("2 rebalances and not 1 to 1" in fault for fault in found)

    assert not is_found(step)
    assert is_found(replace(step, kind=CONSUMER))


def test_the_log_of_a_share_group_tells_as_one_two_epochs_that_polls_may_show():
    step = replace(happened("grow", 0, A_ALONE, before=(A_HALF,)), kind=SHARE)
    first = replace(
        rebalance(1, 2, 1, ("same_members",)),
        group_type="share",
        began_after=at(0),
        ended_after=at(0),
    )
    logged = replace(
        rebalance(1, 3, 0.5, ("same_members",)), group_type="share", ended_before=at(2)
    )

    def is_found(row) -> bool:
        found = compare_polled([step], History([first], []), History([row], []), EACH_SECOND).faults
        return any("the log has no end between" in fault for fault in found)

    assert not is_found(logged)
    assert is_found(replace(logged, generation=2))
    assert is_found(replace(logged, group_type="consumer"))
    assert is_found(replace(logged, began_before=at(1.5)))


def test_a_rebalance_that_no_poll_tells_is_missed_and_one_too_many_is_found():
    for n in (0, 3, 4):
        assert any(
            " rebalances and not 1 to" in each for each in polled(POLLED[:n] + POLLED[n + 1 :])
        )
    assert any(
        "2 rebalances and not 1 to 1" in each
        for each in polled([*POLLED[:4], POLLED[3], POLLED[4]])
    )
    assert any(
        "made 0 times" in each
        for each in compare_polled(
            HAPPENED, History(POLLED, []), History([], []), EACH_SECOND
        ).faults
    )


def test_steps_between_which_no_poll_told_the_group_are_one():
    late = [poll for poll in EACH_SECOND if not at(5) <= poll.sent_at < at(10)]
    assert polled(POLLED, late) == [], "it began in the first, whenever that was seen"
    both = replace(
        rebalance(2, 2, 13.5, ("member_joined",), person(None, A_HALF), person(None, B_FIRST)),
        began_after=at(-1),
        ended_after=at(13),
    )
    assert polled([both, *POLLED[3:]], late) == []
    assert polled([both, *POLLED[3:]]), "polls told the quiet moment between them"
    assert any("0 rebalances" in each for each in polled(POLLED[3:], late))
    assert any("members after it" in each for each in polled([POLLED[0], *POLLED[3:]], late))
    ends_late = [
        Shown(poll.sent_at, at(12)) if at(5) <= poll.sent_at < at(10) else poll
        for poll in EACH_SECOND
    ]
    assert polled([both, *POLLED[3:]], ends_late) == [], "when they told it the next step had begun"


def test_with_few_polls_nothing_is_proven():
    few = [poll for poll in EACH_SECOND if poll.sent_at < at(10) or poll.sent_at > at(65)]
    assert any("polls told 2 of 6 quiet moments" in each for each in polled(POLLED, few))
    assert not any("quiet moments" in each for each in polled(POLLED))


def test_polls_count_epochs():
    one = replace(HAPPENED[0], kind=CONSUMER)
    row = replace(POLLED[0], generation=4, group_type="consumer")
    logged = History([replace(row, generation=5)], [])
    faults = compare_polled([one], History([row], EVENTS[:1]), logged, EACH_SECOND).faults
    assert [each.rpartition(": ")[0].rpartition(": ")[2] for each in faults] == [
        "it reached epoch 5"
    ]
