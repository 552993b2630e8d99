"""The comparison of ends of topics finds whatever is wrong."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.small_log import poll, second
from truth.compare_topics import TopicEnd, compare_topics
from truth.model.states import TopicLife, Truth
from truth.observed import Watch

WATCH = Watch.over([poll(n, 2 * n) for n in range(20)], timedelta(seconds=0.6))
FIRST = TopicLife("t", "first", second(1), second(11))
AT_ONCE = TopicLife("t", "second", second(11.1), None)
LATER = TopicLife("t", "second", second(16.5), None)
"""Polls at 12, 14 and 16 do not show it."""
ROW = TopicEnd("t", "first", "gone", second(10), second(12.01))


def faults(*rows: TopicEnd, then: TopicLife | None = None) -> list[str]:
    lives = [FIRST, *([then] if then else [])]
    truth = Truth(topics={life.topic_id: life for life in lives})
    return [fault.split(":")[0] for fault in compare_topics(rows, WATCH, truth).faults]


@pytest.mark.parametrize(
    ("row", "then", "wrong"),
    [
        (ROW, None, []),
        (ROW, LATER, []),
        (ROW, AT_ONCE, ["misjudged"]),
        (replace(ROW, end_reason="recreated"), AT_ONCE, []),
        (replace(ROW, end_reason="recreated"), LATER, ["misjudged"]),
        (replace(ROW, end_reason="recreated"), None, ["misjudged"]),
        (replace(ROW, end_reason="not_polled"), None, ["misjudged"]),
        # Without an id another topic may look like the one before, or like none.
        (replace(ROW, topic_id=None), AT_ONCE, []),
        (replace(ROW, valid_to=second(10.9)), None, ["missed", "outside"]),
        (replace(ROW, last_seen_sent_at=second(12)), None, ["missed", "outside"]),
        (replace(ROW, topic="u"), None, ["missed", "outside"]),
    ],
)
def test_each_topic_ended_once_and_as_it_did(
    row: TopicEnd, then: TopicLife | None, wrong: list[str]
) -> None:
    assert faults(row, then=then) == wrong


def test_a_topic_that_went_has_a_row() -> None:
    assert faults() == ["missed"]


def test_a_row_that_rests_on_a_poll_that_does_not_count_is_left_out() -> None:
    truth = Truth(topics={FIRST.topic_id: FIRST})
    late = replace(ROW, last_seen_sent_at=second(14), valid_to=second(16.01))
    assert compare_topics([late], WATCH, truth).faults
    polls = [
        replace(each, left_out="paused") if n == 7 else each for n, each in enumerate(WATCH.polls)
    ]
    watch = replace(WATCH, polls=tuple(polls))
    assert compare_topics([late], watch, truth).faults == []
