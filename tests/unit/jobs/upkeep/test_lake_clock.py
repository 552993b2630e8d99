"""Which clock the polls of a lake contradict."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.upkeep.lake_clock import LastPolls

NOW = datetime(2027, 12, 31, 10, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("newest", "earlier", "refused", "contradicted", "doubted_for"),
    [
        (None, None, None, False, None),
        (MINUTE, None, None, False, None),
        (DAY, None, None, False, None),
        # Polls were an hour apart at least, or less.
        (DAY + MINUTE, DAY + 61 * MINUTE, None, True, 10 * MINUTE),
        (400 * DAY, 400 * DAY + HOUR, None, True, 10 * MINUTE),
        (400 * DAY, None, None, True, 10 * MINUTE),
        # Once a day, or a week.
        (DAY + MINUTE, 2 * DAY, None, False, None),
        (7 * DAY + MINUTE, 14 * DAY, None, False, None),
        (14 * DAY + MINUTE, 21 * DAY, None, True, 10 * MINUTE),
        # It keeps its time since a poll was refused, in this process or one before.
        (400 * DAY, None, 4 * MINUTE, True, 6 * MINUTE),
        (400 * DAY, None, 10 * MINUTE, True, None),
    ],
)
def test_a_clock_that_is_far_ahead_of_the_newest_poll_is_doubted_until_it_keeps_its_time(
    newest: timedelta | None,
    earlier: timedelta | None,
    refused: timedelta | None,
    contradicted: bool,
    doubted_for: timedelta | None,
) -> None:
    polls = LastPolls(*(None if ago is None else NOW - ago for ago in (newest, earlier, refused)))
    assert (polls.contradict(NOW) is not None) == contradicted
    doubted = polls.doubted(NOW)
    assert (doubted and doubted[1]) == (None if doubted_for is None else NOW + doubted_for)
    if doubted is not None:
        assert polls.newest is not None
        assert polls.contradict(doubted[0]) is None, "a clock that is put right is believed at once"
        assert polls.contradict(doubted[0] + timedelta(seconds=1)) is not None


def test_the_line_says_both_times() -> None:
    assert LastPolls(NOW - 400 * DAY).contradict(NOW) == (
        "the clock of this machine says 2027-12-31T10:00:00Z, and the newest poll in the lake was "
        "due at 2026-11-26T10:00:00Z: a clock that is so far ahead may be wrong"
    )
