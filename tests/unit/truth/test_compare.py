"""The comparison of states finds whatever is wrong: history made from a small truth, then spoilt in
one place.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.small_log import (
    LOG,
    POLLS,
    change,
    history,
    second,
)
from truth.compare import (
    TOLERANCE,
    compare_brokers,
    compare_epochs,
    compare_states,
    tolerance,
)
from truth.compare_leaders import compare_leader_changes
from truth.log import truth_of
from truth.observed import SeenBroker, Watch
from truth.plain import leader_changes


def test_true_states_agree(truth, watch, rows):
    score = compare_states(rows, watch, truth)
    assert (score.claims, score.wrong, score.missing, score.late, score.trail) == (
        26,
        [],
        [],
        [],
        [],
    )
    epochs = compare_epochs(rows, truth, shrinks_raise=False)
    assert (epochs.pairs, epochs.transitions, epochs.exact, epochs.wrong) == (4, 4, 3, [])


@pytest.mark.parametrize("offline", [(), (2,), (1, 2)])
def test_a_replica_that_was_not_offline_is_found(truth, watch, rows, offline):
    assert compare_states(rows, watch, truth).offline_wrong == []
    rows[1] = replace(rows[1], offline_replicas=offline)
    score = compare_states(rows, watch, truth)
    assert len(score.offline_wrong) == (4 if 2 in offline else 0) + (4 if 1 not in offline else 0)
    assert score.wrong == []


def listed(*spans: tuple[int, int, int | None]) -> list[SeenBroker]:
    """Broker, first poll and last."""
    return [
        SeenBroker(b, None, POLLS[first].poll_id, None if last is None else POLLS[last].poll_id)
        for b, first, last in spans
    ]


def test_brokers_are_listed_while_they_live(truth, watch):
    others = [(b, 0, None) for b in (2, 3, 4)]
    right = compare_brokers(
        listed((1, 0, 1), (1, 6, None), *others), watch, truth
    )  # fenced from 13 to 20.5
    assert (right.claims, right.wrong, right.late) == (104, [], [])
    early = compare_brokers(listed((1, 0, 0), (1, 6, None), *others), watch, truth)
    assert len(early.wrong) == 1  # at 12 it was alive, and had never not been
    late = compare_brokers(listed((1, 0, None), *others), watch, truth)
    assert (late.wrong, max(late.trail)) == ([], timedelta(seconds=7))
    assert (
        len(
            compare_brokers(
                [*listed((1, 0, None), *others), *listed((9, 3, 3))], watch, truth
            ).wrong
        )
        == 1
    )
    racked = [
        replace(row, rack="z") if row.broker_id == 2 else row
        for row in listed((1, 0, None), *others)
    ]
    assert len(compare_brokers(racked, watch, truth).wrong) == 26


@pytest.mark.parametrize(
    "spoilt",
    [
        {"leader": 3},
        {"leader_epoch": 7},
        {"isr": (2,)},
        {"replicas": (2, 1, 3)},
        {"partition": 9},
        {"topic_id": "B" * 22},
    ],
)
def test_a_state_that_never_was_is_found(truth, watch, rows, spoilt):
    rows[1] = replace(rows[1], **spoilt)
    score = compare_states(rows, watch, truth)
    assert len(score.wrong) == 4  # at 14, 16, 18 and 20
    assert len(score.missing) == (4 if {"partition", "topic_id"} & set(spoilt) else 0)


def test_a_state_that_is_yet_to_come_is_found(truth, watch, rows):
    rows[1] = replace(rows[1], first_poll=POLLS[1].poll_id)  # leader 2 at 12
    rows[0] = replace(rows[0], last_poll=POLLS[0].poll_id)
    assert [text.split(" at ")[1][:14] for text in compare_states(rows, watch, truth).wrong] == [
        "s/000000000001"
    ]


def test_a_state_of_which_nothing_is_said_is_found(truth, watch, rows):
    del rows[1]
    assert len(compare_states(rows, watch, truth).missing) == 4


def test_answers_that_trail_are_measured(truth, watch):
    trailing = compare_states(history(truth, POLLS, trail=0.55), watch, truth)
    assert (trailing.wrong, trailing.late) == ([], [])
    assert trailing.trail == [timedelta(seconds=s) for s in (0.5,)]  # 42 shows what ended at 41.5
    late = compare_states(history(truth, POLLS, trail=2.5), watch, truth)
    assert late.wrong == []
    assert max(late.late) == timedelta(seconds=1.2)  # 52 shows what ended at 50.2
    assert "7 late (at most 1.200 s beyond the tolerance)" in str(late)


def test_answers_that_do_not_count_are_left_out_and_counted(truth, rows):
    rows[1] = replace(rows[1], leader=3)
    polls = [
        replace(each, left_out="paused") if 2 <= n <= 5 else each for n, each in enumerate(POLLS)
    ]
    score = compare_states(rows, Watch.over(polls, TOLERANCE), truth)
    assert (score.claims, score.wrong, dict(score.left_out)) == (22, [], {"paused": 4})


def test_an_epoch_that_rose_without_another_leader_is_found(truth, rows):
    # As a shrink raises it where metadata.version is below 3.6-IV0.
    raising = truth_of([*LOG[:-3], change(41.7, isr=[1, 2], leader=1), *LOG[-3:]])
    rows = history(raising, POLLS)
    assert len(compare_epochs(rows, raising, shrinks_raise=False).wrong) == 1
    assert compare_epochs(rows, raising, shrinks_raise=True).wrong == []


def test_an_unseen_reassignment_is_told_apart(truth, rows):
    moving = change(25.3, replicas=[1, 2, 3, 4], addingReplicas=[4], removingReplicas=[])
    cancelled = change(25.6, replicas=[1, 2, 3], addingReplicas=[], removingReplicas=[], leader=1)
    at = next(i for i, each in enumerate(LOG) if each.at > second(26))
    moved = truth_of([*LOG[:at], moving, cancelled, *LOG[at:]])
    rows = history(moved, POLLS)
    epochs = compare_epochs(rows, moved, shrinks_raise=False)
    assert (len(epochs.moved_between), epochs.wrong) == (1, [])
    watch = Watch.over(POLLS, TOLERANCE)
    told = leader_changes(rows, watch, shrinks_raise=False)
    assert compare_leader_changes(told, rows, watch, moved).faults == []
    exact = [
        replace(each, epoch_semantics="exact", changes_min=1, changes_max=1)
        for each in told
        if each.changes_max < 1
    ]
    assert compare_leader_changes(exact, rows, watch, moved).left_out["unseen_reassignment"] == 2


@pytest.mark.parametrize("seconds", [1, 2, 5, 15])
def test_a_poll_never_passes_for_the_one_before_it(seconds):
    assert tolerance(timedelta(seconds=seconds)) < timedelta(seconds=seconds) / 2


def test_a_row_that_rests_on_a_poll_that_proves_nothing_is_found(truth, rows):
    polls = [replace(each, accepted=n != 5) for n, each in enumerate(POLLS)]
    assert rows[1].last_poll == POLLS[5].poll_id
    assert len(compare_states(rows, Watch.over(polls, TOLERANCE), truth).wrong) == 1
