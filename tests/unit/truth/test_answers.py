"""The comparison of what answers beside polls told finds whatever is dated wrong."""

from dataclasses import replace

import pytest

from tests.support.small_log import TOPIC, change, record, second
from truth.chaos import Entry
from truth.compare_answers import (
    KINDS,
    Answered,
    Reassigned,
    compare_kinds,
    compare_reassignments,
)
from truth.log import truth_of

# Broker 4 takes the place of 3 from 10.5 to 14; from 20 on 5 is added, until the topic is deleted
# at 30.
TRUTH = truth_of(
    [
        record(1, "TOPIC_RECORD", name="t", topicId=TOPIC),
        record(
            1,
            "PARTITION_RECORD",
            partitionId=0,
            topicId=TOPIC,
            replicas=[1, 3],
            isr=[1, 3],
            leader=1,
            leaderEpoch=0,
        ),
        change(10.5, replicas=[1, 4, 3], addingReplicas=[4], removingReplicas=[3]),
        change(14, replicas=[1, 4], isr=[1, 4], addingReplicas=[], removingReplicas=[]),
        change(20, replicas=[1, 4, 5], addingReplicas=[5]),
        record(30, "REMOVE_TOPIC_RECORD", topicId=TOPIC),
        record(40, "NO_OP_RECORD"),
    ]
)
FIRST = Reassigned("t", 0, (4,), (3,), second(9), second(11), second(13), second(15))
SECOND = Reassigned("t", 0, (5,), (), second(19), second(21), second(29), second(31))


def faults(*rows: Reassigned) -> list[str]:
    return [fault.split(":")[0] for fault in compare_reassignments(rows, TRUTH).faults]


def test_what_answers_told_in_time_agrees() -> None:
    assert faults(FIRST, SECOND, replace(FIRST, last_seen_sent_at=None, valid_to=None)) == []
    assert faults(replace(SECOND, prev_sent_at=None)) == []
    assert compare_reassignments([FIRST, SECOND], TRUTH).claims == 2


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        # Dated by the poll's own answer, which came before the event.
        (replace(FIRST, valid_from=second(10.4)), "wrong"),
        (replace(SECOND, valid_to=second(29.9)), "outside"),
        (replace(FIRST, prev_sent_at=second(12)), "outside"),
        (replace(FIRST, last_seen_sent_at=second(14.9)), "outside"),
        (replace(FIRST, adding_replicas=(5,)), "wrong"),
        (replace(FIRST, partition=1), "wrong"),
    ],
)
def test_whatever_is_dated_wrong_is_found(row: Reassigned, fault: str) -> None:
    assert faults(row) == [fault]


JOURNAL = [
    Entry("stop", "stop 1", (1,), second(100), second(101), None),
    Entry("start", "start 1", (1,), second(110), second(115), None),
    Entry("grow", "grow t", (), second(130), second(131), None),
]
ANSWERED = [Answered(kind, "ok", second(50)) for kind in KINDS]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (ANSWERED, []),
        (ANSWERED[1:], ["configs: never answered"]),
        ([*ANSWERED, Answered("configs", "not_supported", second(60))], ["configs: not_supported"]),
        (
            [*ANSWERED, Answered("configs", "not_supported", second(126))],
            ["configs: not_supported"],
        ),
        # Brokers are not in their places, or were not a moment ago; and then it is over.
        ([*ANSWERED, Answered("configs", "failed: nobody", second(105))], []),
        ([*ANSWERED, Answered("configs", "failed: nobody", second(124))], []),
        ([*ANSWERED, Answered("configs", "failed: nobody", second(200))], []),
        # It says something of this machine.
        ([*ANSWERED, Answered("configs", "failed: broker 1: no answer in time", second(60))], []),
        ([*ANSWERED[1:], Answered("configs", "ok", second(105))], ["configs: never answered"]),
    ],
)
def test_what_every_version_answers_is_answered_while_all_brokers_are_there(
    answers: list[Answered], said: list[str]
) -> None:
    assert list(compare_kinds(answers, JOURNAL, second(200))) == said
