"""The comparison of what polls told of groups finds whatever is wrong."""

from dataclasses import replace

import pytest

from tests.support.small_group import (
    A_ALONE,
    A_HALF,
    B_FIRST,
    EVENTS,
    GROUP,
    HAPPENED,
    NOTHING,
    REBALANCES,
    at,
    happened,
    person,
    rebalance,
)
from truth.groups.history import History, Rebalance
from truth.groups.polled import Shown, compare_polled
from truth.groups.script import (
    CONSUMER,
    SHARE,
)
from truth.groups.storms import storms

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
