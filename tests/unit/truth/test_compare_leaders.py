"""The comparison of leader changes finds whatever is wrong: history made from a small truth, then
spoilt in one place.
"""

from dataclasses import replace

import pytest

from tests.support.small_log import (
    LOG,
    POLLS,
    TOPIC,
    change,
    history,
    record,
    second,
)
from truth.compare import (
    TOLERANCE,
)
from truth.compare_events import EventScore
from truth.compare_leaders import compare_counts, compare_leader_changes
from truth.log import truth_of
from truth.model.events import leader_transitions
from truth.model.states import NO_LEADER
from truth.observed import Watch
from truth.plain import leader_changes


@pytest.mark.parametrize(
    ("said", "faults"), [("proven", 0), ("suspected", 0), ("no", 1), (None, 0)]
)
def test_an_unclean_election_must_not_be_called_clean(said, faults):
    log = [
        *LOG[:6], change(30.5, leader=-1, isr=[2]),
        change(36.5, leader=3, isr=[3], leaderRecoveryState=1), LOG[-1],
    ]  # fmt: skip
    unclean = truth_of(log)
    rows, watch = history(unclean, POLLS), Watch.over(POLLS, TOLERANCE)
    changes = [
        replace(each, unclean="no") for each in leader_changes(rows, watch, shrinks_raise=False)
    ]
    assert [each.leader for each in changes] == [-1, 3]
    changes[1] = replace(changes[1], unclean=said)
    score = compare_leader_changes(changes, rows, watch, unclean)
    assert (len(score.misjudged), dict(score.unclean)) == (faults, {said or "unknown": 1})


def test_true_leader_changes_agree(truth, watch, rows):
    score = compare_leader_changes(
        leader_changes(rows, watch, shrinks_raise=False), rows, watch, truth
    )
    assert score.faults == []
    # From 40 to 42 leadership went and came back; at 50.4 the epoch rose and nobody else led.
    assert (score.expected, score.given, score.recall, score.precision, sum(score.slack)) == (
        4,
        4,
        1.0,
        1.0,
        0,
    )
    assert (score.median_width, score.longest_trail) == (2.01, 0)


@pytest.mark.parametrize(
    ("spoilt", "kind"),
    [
        ({"leader": 3}, "extra"),
        ({"prev_leader": 3}, "extra"),
        ({"leader_epoch": 9}, "extra"),
        ({"prev_leader_epoch": 1, "leader_epoch": 2, "prev_leader": 2, "leader": 1}, "missed"),
        ({"changes_min": 2, "changes_max": 2}, "miscounted"),
        ({"changes_min": 0}, "miscounted"),
        ({"reason": "preferred"}, "misjudged"),
        ({"reason": "isr_shrink"}, "misjudged"),
        ({"unclean": "proven"}, "misjudged"),
        ({"began_after": second(14.01)}, "outside"),
        ({"began_before": second(12.99)}, "outside"),
    ],
)
def test_a_wrong_leader_change_is_found(truth, watch, rows, spoilt, kind):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    changes[0] = replace(changes[0], **spoilt)
    score = compare_leader_changes(changes, rows, watch, truth)
    assert kind in {fault.split(":")[0] for fault in score.faults}


# Broker 1 goes and comes back, and an election gives leadership back to it; broker 2, which led
# meanwhile, is well.
REASONS = ["failover", "preferred", "unknown", "unknown"]


def test_reasons_are_unknown_only_where_the_log_leaves_them_so(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    told = [
        replace(each, reason=reason, unclean="no")
        for each, reason in zip(changes, REASONS, strict=True)
    ]
    score = compare_leader_changes(told, rows, watch, truth)
    assert (score.faults, score.decided, score.unknown) == ([], 2, 2)
    # From 40 to 42 leadership went and came back, and at 50.4 a reassignment raised the epoch.
    assert score.undecidable == 2
    for index, decided in enumerate(REASONS[:2]):
        lazy = [
            replace(each, reason="unknown") if n == index else each for n, each in enumerate(told)
        ]
        (fault,) = compare_leader_changes(lazy, rows, watch, truth).faults
        assert fault.startswith("needless")
        assert fault.endswith(decided)


@pytest.mark.parametrize("reason", ["failover", "reassignment"])
def test_of_several_changes_one_must_have_the_reason(truth, watch, rows, reason):
    at = next(i for i, each in enumerate(LOG) if each.at == second(41))
    # Both are elections of a preferred replica: a reassignment puts 2 first, and another one 1.
    elected = [
        change(40.5, replicas=[2, 1, 3], isr=[1, 2, 3], leader=2),
        change(41.2, replicas=[1, 2, 3], isr=[1, 2, 3], leader=1),
    ]
    calm = truth_of([*LOG[:at], *elected, *LOG[at + 2 :]])
    rows = history(calm, POLLS)
    changes = leader_changes(rows, watch, shrinks_raise=False)
    index = next(n for n, each in enumerate(changes) if each.began_before == second(42.01))
    changes[index] = replace(changes[index], reason=reason)
    (fault,) = compare_leader_changes(changes, rows, watch, calm).faults
    assert fault.startswith("misjudged")


def test_a_leader_that_went_and_came_back_is_no_shrink(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)
    said = [
        replace(each, reason="isr_shrink") for each in changes if each.leader == each.prev_leader
    ]
    score = compare_leader_changes(said, rows, watch, truth)
    assert (len(said), len(score.misjudged)) == (2, 1)


def test_a_leader_change_that_is_not_there_is_missed(truth, watch, rows):
    changes = leader_changes(rows, watch, shrinks_raise=False)[1:]
    assert compare_leader_changes(changes, rows, watch, truth).recall == 0.75


def test_what_happened_before_the_first_poll_and_after_the_last_is_left_out(truth):
    polls = POLLS[4:10]  # 18 to 28
    watch, rows = Watch.over(polls, TOLERANCE), history(truth, polls)
    leaders = compare_leader_changes(
        leader_changes(rows, watch, shrinks_raise=False), rows, watch, truth
    )
    assert (leaders.expected, leaders.faults) == (1, [])
    assert dict(leaders.left_out) == {"before_first_poll": 1, "after_last_poll": 2}


@pytest.mark.parametrize(
    ("elected", "unclean", "level", "needless"),
    [
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, "proven", 0, False),
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, "suspected", 0, True),
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, None, 0, True),
        ({"leader": 2}, "no", 0, False),
        ({"leader": 2}, None, 0, True),
        # With ELR somebody else may be elected clean.
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, "suspected", 1, False),
        ({"leader": 2}, None, 1, False),
    ],
)
def test_without_elr_it_is_known_whether_an_election_that_polls_saw_was_unclean(
    elected, unclean, level, needless
):
    elr = "eligible.leader.replicas.version"
    log = [
        record(0, "FEATURE_LEVEL_RECORD", name=elr, featureLevel=level),
        *LOG[:6],
        change(30.5, leader=-1, isr=[2]),
        change(36.5, **elected),
        LOG[-1],
    ]
    lived = truth_of(log)
    rows, watch = history(lived, POLLS), Watch.over(POLLS, TOLERANCE)
    gone, back = leader_changes(rows, watch, shrinks_raise=False)
    changes = [
        replace(gone, reason="offline", unclean="no"),
        replace(back, reason="recovery", unclean=unclean),
    ]
    assert bool(compare_leader_changes(changes, rows, watch, lived).faults) == needless


@pytest.mark.parametrize("shrinks_raise", [False, True])
def test_counts_are_as_sure_as_silver_makes_them(truth, watch, rows, shrinks_raise):
    changes = leader_changes(rows, watch, shrinks_raise=shrinks_raise)
    score = EventScore()
    compare_counts(changes, changes, score)
    assert score.faults == []
    exact = changes[0].epoch_semantics == "exact"
    assert exact != shrinks_raise
    lazy = replace(changes[0], epoch_semantics="upper_bound" if exact else "exact")
    compare_counts([lazy, *changes[1:]], changes, score)
    compare_counts([replace(changes[0], changes_max=9), *changes[1:]], changes, score)
    assert [each.split(":")[0] for each in score.faults] == ["miscounted", "miscounted"]


@pytest.mark.parametrize(
    ("reasons", "faults"),
    [
        (("offline", "recovery"), 0),
        (("unknown", "recovery"), 1),
        (("offline", "failover"), 1),
        (("failover", "unknown"), 2),
    ],
)
def test_with_zookeeper_a_leader_that_is_gone_may_be_shown_as_none_in_its_epoch(
    truth, watch, rows, reasons, faults
):
    """Broker 1 is gone at 11.5, and another one is elected at 13 (LOG)."""
    states = truth.partitions[TOPIC, 0]
    gone = replace(
        states[0], at=second(11.5), leader=NO_LEADER, names_leader=False, is_shown_gone=True
    )
    states.insert(1, gone)
    assert [each.after.leader for each in leader_transitions(truth)] == [2, 1, 2, 1]
    seen = history(truth, POLLS)
    changes = leader_changes(seen, watch, shrinks_raise=False)
    assert [(each.leader, each.changes_min, each.changes_max) for each in changes[:2]] == [
        (-1, 1, None),
        (2, 1, 1),
    ]
    told = [
        *(replace(each, reason=reason) for each, reason in zip(changes, reasons, strict=False)),
        *changes[2:],
    ]
    score = compare_leader_changes(told, seen, watch, truth)
    assert (len(score.faults), score.left_out["shown_gone"]) == (faults, 2)
    del states[1]
    assert compare_leader_changes(told, seen, watch, truth).extra
