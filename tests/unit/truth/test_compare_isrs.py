"""The comparison of ISR changes finds whatever is wrong in a history spoilt in one place."""

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.support.small_log import (
    LOG,
    POLLS,
    broker,
    history,
    second,
)
from truth.compare import (
    TOLERANCE,
)
from truth.compare_isrs import compare_isr_changes
from truth.log import truth_of
from truth.observed import Watch
from truth.plain import isr_changes

if TYPE_CHECKING:
    from truth.compare_events import IsrChange

LOOK_AHEAD = timedelta(seconds=15)


def test_a_cause_that_is_due_must_be_there(truth, watch, rows):
    told = [
        replace(each, cause={0: "broker_down", 2: "lagging", 4: "reassignment"}.get(n))
        for n, each in enumerate(isr_changes(rows, watch))
    ]
    assert compare_isr_changes(told, watch, truth, look_ahead=LOOK_AHEAD).faults == []
    told[2] = replace(told[2], cause=None)
    assert [
        fault.split(":")[0]
        for fault in compare_isr_changes(told, watch, truth, look_ahead=LOOK_AHEAD).faults
    ] == ["needless"]
    assert compare_isr_changes(told, watch, truth, look_ahead=timedelta(seconds=30)).faults == []


def test_true_isr_changes_agree(truth, watch, rows):
    changes = isr_changes(rows, watch)
    score = compare_isr_changes(changes, watch, truth, look_ahead=None)
    assert score.faults == []
    # Broker 1 left and came back, 3 did and then left, 4 came; what was between 30.2 and 30.6 no
    # poll had to see.
    assert (score.expected, score.given, +score.left_out) == (6, 6, {"between_polls": 2})


@pytest.mark.parametrize(
    ("spoilt_one", "kind"),
    [
        ((0, {"broker_id": 2}), "extra"),
        ((0, {"broker_id": 2}), "missed"),
        ((0, {"change": "joined"}), "missed"),
        ((0, {"partition": 1}), "extra"),
        ((0, {"began_after": second(14.01)}), "outside"),
        ((0, {"cause": "lagging"}), "misjudged"),
        ((0, {"cause": "reassignment"}), "misjudged"),
        ((2, {"cause": "broker_down"}), "misjudged"),
        ((4, {"cause": "lagging"}), "misjudged"),
    ],
)
def test_a_wrong_isr_change_is_found(truth, watch, rows, spoilt_one, kind):
    index, spoilt = spoilt_one
    changes = isr_changes(rows, watch)
    changes[index] = replace(changes[index], **spoilt)
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert kind in {fault.split(":")[0] for fault in score.faults}


def test_the_right_causes_agree(truth, watch, rows):
    changes = isr_changes(rows, watch)
    causes = [("broker_down", 0), ("leader_stalled", 2), ("reassignment", 4)]
    for cause, index in causes:
        assert changes[index].change == "left"
        changes[index] = replace(changes[index], cause=cause)
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert (score.faults, score.decided) == ([], 3)


@pytest.mark.parametrize(("polls", "wrong"), [(POLLS, 1), ([*POLLS[:4], *POLLS[10:]], 0)])
def test_a_broker_that_goes_later_is_asked_for_where_a_poll_had_to_show_that(polls, wrong):
    truth = truth_of([broker(18, 1, 1) if each == broker(13, 1, 1) else each for each in LOG])
    watch = Watch.over(polls, TOLERANCE)
    changes = isr_changes(history(truth, polls), watch)
    changes[0] = replace(changes[0], cause="lagging")
    score = compare_isr_changes(changes, watch, truth, look_ahead=LOOK_AHEAD)
    assert (len(score.misjudged), score.decided) == (wrong, wrong)


def test_an_isr_change_that_is_not_there_is_missed(truth, watch, rows):
    changes: list[IsrChange] = isr_changes(rows, watch)
    for index in range(len(changes)):
        score = compare_isr_changes(
            changes[:index] + changes[index + 1 :], watch, truth, look_ahead=LOOK_AHEAD
        )
        assert len(score.missed) == 1
