"""The events and spells that a small log makes."""

import pytest

from tests.support.small_log import LOG, change, second
from truth.log import truth_of
from truth.model.events import isr_departures, leader_transitions


def test_what_happened_by_the_log(truth):
    assert [
        (t.at, t.before.leader, t.after.leader, t.reason, t.unclean)
        for t in leader_transitions(truth)
    ] == [
        (second(13), 1, 2, "failover", False),
        (second(23), 2, 1, "preferred", False),
        (second(41), 1, 2, None, False),
        (second(41.5), 2, 1, "preferred", False),
    ]
    assert [t.after.leader for t in leader_transitions(truth, second(13), second(41))] == [1, 2]
    assert [(d.broker_id, d.since, d.until, d.cause) for d in isr_departures(truth)] == [
        (1, second(13), second(21), None),
        (3, second(30.2), second(30.6), None),
        (3, second(34.5), second(37), None),
        (3, second(50.4), None, "reassignment"),
    ]


@pytest.mark.parametrize(
    ("change_", "unclean"),
    [
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, True),
        ({"leader": 2}, False),
        # One that follows before the first has recovered leaves no mark of its own.
        ({"leader": 4, "isr": [4]}, True),
    ],
)
def test_unclean_elections(change_, unclean):
    recovering = {"leaderRecoveryState": 1} if change_["leader"] == 4 else {}
    log = [
        *LOG[:6],
        change(30, leader=-1, isr=[2], eligibleLeaderReplicas=[1], **recovering),
        change(31, **change_),
    ]
    last = leader_transitions(truth_of(log))[-1]
    assert (last.reason, last.unclean) == ("recovery", unclean)
