"""The comparison of groups finds whatever is wrong: history as it was, then spoilt in one place."""

from dataclasses import replace

import pytest

from tests.support.small_group import (
    A_ALONE,
    A_HALF,
    ALL,
    EVENTS,
    HALF,
    HAPPENED,
    HISTORY,
    MOVES,
    REBALANCES,
    at,
    call,
    happened,
    person,
    rebalance,
    with_event,
    with_person,
    with_row,
)
from truth.groups.compare import compare, figures_of, rounds_of
from truth.groups.history import History, MemberRow, history_of
from truth.groups.script import (
    CONSUMER,
    SHARE,
)
from truth.model.groups import Call, Round


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
        (with_row(1, assignment_skew=7), "assignment_skew 7 and not 0"),
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
    assert rounds_of(step, 1) == [Round(1, 3, 2)]
    three = (
        *step.calls,
        call(13.1, "a-1", "revoked", 3, HALF),
        call(14.1, "c-1", "assigned", 4, HALF),
    )
    assert rounds_of(replace(step, calls=three), 1) == [
        Round(1, 4, 3)
    ]  # another came in the middle of it
    kept = [replace(each, told=replace(each.told, partitions=frozenset())) for each in step.calls]
    assert rounds_of(replace(step, calls=tuple(kept)), 1) == [Round(1, 2, 1), Round(2, 3, 1)]
    assert rounds_of(HAPPENED[2], 3) == []  # the same generation again
    assert rounds_of(HAPPENED[5], 4) == [Round(4, 5, 1)]  # called back to nobody


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
    assert figures_of(shared) == {
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
