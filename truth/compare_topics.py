"""Ends of topics that history tells, against the truth: each topic that went, and how.

Made for the rows of silver.topic_snapshots that have an end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from truth.compare_spells import SpellScore
from truth.model.states import TopicLife, Truth
from truth.observed import Poll, Watch

RECREATED: Final = "recreated"
GONE: Final = "gone"
_GONE_AFTER: Final = 2
"""A topic is gone once so many answers in a row do not show it."""


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """Such a row."""

    topic: str
    topic_id: str | None
    end_reason: str
    last_seen_sent_at: datetime
    valid_to: datetime


def compare_topics(rows: Sequence[TopicEnd], watch: Watch, truth: Truth) -> SpellScore:
    """Each row ended when its topic was removed, each topic that polls had to show and to miss has
    its row, and it was recreated where another one was there before it was gone.
    """
    score = SpellScore(rows=len(rows), claims=len(rows))
    ended = [life for life in truth.topics.values() if life.deleted_at is not None]
    told: list[TopicLife] = []
    not_counted = {
        at for poll in watch.polls if poll.left_out for at in (poll.sent_at, poll.received_at)
    }
    for row in rows:
        of_row = [life for life in ended if _is_end_of(row, life, watch)]
        told += of_row
        if not_counted & {row.last_seen_sent_at, row.valid_to}:
            told += [life for life in ended if life.topic == row.topic]
        elif not of_row:
            score.outside.append(f"{row} was there")
        elif not any(row.end_reason in _reasons(row, life, watch, truth) for life in of_row):
            score.misjudged.append(str(row))
    for life in ended:
        is_shown = watch.certainly_within(life.created_at, life.deleted_at)
        if is_shown and life not in told and len(_polls_after(life, None, watch)[0]) >= _GONE_AFTER:
            score.missed.append(str(life))
    return score


def _is_end_of(row: TopicEnd, life: TopicLife, watch: Watch) -> bool:
    return (
        life.topic == row.topic
        and life.deleted_at is not None
        and row.last_seen_sent_at - watch.tolerance <= life.deleted_at <= row.valid_to
    )


def _reasons(row: TopicEnd, life: TopicLife, watch: Watch, truth: Truth) -> set[str]:
    """How its end may be told. Without ids another topic may look like the one before."""
    after = [
        other.created_at
        for other in truth.topics.values()
        if other.topic == life.topic and other.created_at > life.created_at
    ]
    if not after:
        return {GONE}
    sure, perhaps = _polls_after(life, min(after), watch)
    if len(sure) >= _GONE_AFTER:
        return {GONE}
    may_be_gone = len(perhaps) >= _GONE_AFTER or row.topic_id is None
    return {RECREATED, GONE} if may_be_gone else {RECREATED}


def _polls_after(
    life: TopicLife, until: datetime | None, watch: Watch
) -> tuple[list[Poll], list[Poll]]:
    """The polls between a topic's end and the next of its name: those surely there, and all that
    may be.
    """
    assert life.deleted_at is not None  # noqa: S101 - it ended
    since, counted = life.deleted_at, [poll for poll in watch.polls if poll.left_out is None]
    sure = [
        poll
        for poll in counted
        if poll.sent_at - watch.tolerance > since and (until is None or poll.received_at < until)
    ]
    perhaps = [
        poll
        for poll in watch.polls
        if poll.received_at > since and (until is None or poll.sent_at - watch.tolerance < until)
    ]
    return sure, perhaps
