"""Brokers that are said to have answered from an old image against the journal, which says who was
cut off, and the log, which has what they cannot have known.

Made for the rows of gold.stale_brokers, and for what polls heard of other brokers (`witnesses` in
bronze).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from truth.chaos import Entry
from truth.compare_spells import SpellScore
from truth.cuts import Cut, Views, cuts
from truth.model.states import Truth
from truth.observed import Watch

STALE_AFTER = timedelta(seconds=1)
"""A broker that shows older state so long after the newer one was seen is stale."""
ASKED_AGAIN = timedelta(seconds=1.5)
"""By then a broker that seems behind has been asked again. If its image moved, it is not."""
CAUGHT_UP = "caught_up"


@dataclass(frozen=True, slots=True)
class Stale:
    """A row of gold.stale_brokers."""

    broker_id: int
    poll: str
    began_after: datetime | None
    began_before: datetime
    ended_after: datetime | None
    ended_before: datetime | None
    end_reason: str | None
    partitions_behind: int
    epochs_behind: int


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer of a broker beside the one that answered a poll, and what it was taken for."""

    broker_id: int
    sent_at: datetime
    received_at: datetime
    is_behind: bool | None = None
    behind_ms: int | None = None


def heard(headers: Iterable[Mapping[str, Any]]) -> list[Heard]:
    """The answers of other brokers, by headers of good polls in bronze."""
    return [
        Heard(
            told["broker_id"],
            told["sent_at"],
            told["received_at"],
            told["is_behind"],
            told["behind_ms"],
        )
        for header in headers
        for told in header["witnesses"] or ()
        if told["error_kind"] is None and told["broker_id"] is not None
    ]


def compare_stale(
    rows: Sequence[Stale],
    answers: Iterable[Heard],
    journal: Sequence[Entry],
    watch: Watch,
    truth: Truth,
) -> SpellScore:
    """Each row is of a broker that was cut off, while it knew less than the log has; each such
    broker that was asked for long enough has its row.
    """
    score, views = SpellScore(rows=len(rows)), Views(truth)
    found = cuts(journal, views)
    for row in rows:
        of_row = [cut for cut in found if cut.broker_id == row.broker_id and _meet(row, cut)]
        score.claims += 1
        if not any(_is_behind(cut, row, views, watch) for cut in of_row):
            score.wrong.append(f"{row}: its broker knew all")
            continue
        if not any(_begins_within(cut, row, views, watch) for cut in of_row):
            score.outside.append(f"{row} began at another time")
        if not any(_ends_within(cut, row, views) for cut in of_row):
            score.outside.append(f"{row} ended at another time")
        if not any(_is_so_far(cut, row, views, watch) for cut in of_row):
            score.misjudged.append(f"{row}: it was less far behind")
    told = list(answers)
    for cut in found:
        times = [
            each
            for each in told
            if each.broker_id == cut.broker_id and _must_show(cut, each, views, watch)
        ]
        if times:
            score.claims += 1
            if not any(row.broker_id == cut.broker_id and _meet(row, cut) for row in rows):
                asked = ", ".join(
                    f"{each.sent_at:%H:%M:%S.%f} (behind: {each.is_behind}, by {each.behind_ms} ms)"
                    for each in times
                )
                was = f"{cut.since:%H:%M:%S.%f} to {cut.returning_at:%H:%M:%S.%f}"
                score.missed.append(f"broker {cut.broker_id}, cut off from {was}, asked at {asked}")
    return score


def _meet(row: Stale, cut: Cut) -> bool:
    """Whether a row and a cut are about the same time."""
    return row.began_before >= cut.since and row.began_before <= cut.until


def _is_behind(cut: Cut, row: Stale, views: Views, watch: Watch) -> bool:
    """Whether the first answer that is said to be behind may have been."""
    return cut.may_be_behind(views.during(row.began_before - watch.tolerance, row.began_before))


def _begins_within(cut: Cut, row: Stale, views: Views, watch: Watch) -> bool:
    """Whether the last answer that is said not to have been behind was not.

    It was asked for at `began_after`.
    """
    if row.began_after is None or row.began_after <= cut.since:
        return True
    around = views.during(row.began_after - watch.tolerance, row.began_after + watch.tolerance)
    return not cut.is_surely_behind(around)


def _ends_within(cut: Cut, row: Stale, views: Views) -> bool:
    """Whether it may have been behind at `ended_after` and, if it ended, not at `ended_before`."""
    if row.ended_before is None or row.ended_after is None:
        return True
    if row.ended_after > cut.until:
        return False
    if row.end_reason != CAUGHT_UP or row.ended_before >= cut.returning_at:
        return True
    return not cut.is_surely_behind(views.during(row.ended_after, row.ended_before))


def _is_so_far(cut: Cut, row: Stale, views: Views, watch: Watch) -> bool:
    """Whether it was behind by as much, at some time of the row."""
    until = min(row.ended_before or cut.until, cut.until)
    shown = views.during(row.began_before - watch.tolerance, until)
    far = [old.behind(view) for old in cut.frozen for view in shown]
    most = max(partitions for partitions, _ in far), max(epochs for _, epochs in far)
    return row.partitions_behind <= most[0] and row.epochs_behind <= most[1]


def _must_show(cut: Cut, answer: Heard, views: Views, watch: Watch) -> bool:
    """Whether an answer had to be found to be behind: what it lacks had been shown long before by
    polls that all showed the same, and was so still. A poller knows of the poll before it alone,
    topic by topic.
    """
    if cut.stale_from is None or answer.received_at + ASKED_AGAIN >= cut.returning_at:
        return False
    since = cut.stale_from + watch.tolerance
    shown = [
        poll
        for poll in watch.polls
        if poll.left_out is None and since <= poll.sent_at and poll.received_at <= answer.sent_at
    ]
    old = [poll for poll in shown if poll.received_at + STALE_AFTER <= answer.sent_at]
    if not old:
        return False
    known, *others = views.during(old[-1].sent_at - watch.tolerance, shown[-1].received_at)
    return all(known.is_same(other) for other in others) and cut.surely_lacks(
        known, views.during(answer.sent_at - watch.tolerance, answer.received_at)
    )
