"""The time by a lake: its own polls say what time it was last, and contradict a clock that is far
ahead of them.

Only polls that were not refused for the clock count, and none that is due later than now: an
earlier run may have had a clock that was ahead.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from metadata_source.clock import BELIEVED_AFTER_S
from metadata_source.errors import KafkaMetadataHistoryError
from schemas.bronze import METADATA_POLLS
from schemas.in_spark import table_exists
from schemas.lake import Lake

DAY = timedelta(days=1)
_APART = timedelta(hours=1)
"""Polls that are due further apart are of two runs with --once, or an outage lies between them."""


class ClockError(KafkaMetadataHistoryError, RuntimeError):
    """Raised where the clock is not believed, so that nothing is dropped by it. One line."""


@dataclass(frozen=True)
class LastPolls:
    """When polls of a lake were due, up to now. None: there is no such poll.

    `newest`: the last one. `earlier`: the last one an hour and more before that, if `newest` is
    older than a day. `refused`: the first within the last day that was refused for the clock.
    """

    newest: datetime | None = None
    earlier: datetime | None = None
    refused: datetime | None = None

    @property
    def believed_until(self) -> datetime | None:
        """The latest time of a clock that the polls do not contradict: a day after the newest, or
        twice the time that lay between it and the earlier one. None: nothing contradicts any clock.
        """
        if self.newest is None:
            return None
        return self.newest + max(DAY, 2 * (self.newest - (self.earlier or self.newest)))

    def contradict(self, now: datetime) -> str | None:
        """Why the lake does not believe that it is `now`, one line; None where it does."""
        if self.newest is None or self.believed_until is None or now <= self.believed_until:
            return None
        return (
            f"the clock of this machine says {_shown(now)}, and the newest poll in the lake was "
            f"due at {_shown(self.newest)}: a clock that is so far ahead may be wrong"
        )

    def doubted(self, now: datetime) -> tuple[datetime, datetime] | None:
        """From when until when no poll is believed, by this machine's clock; None where it is
        believed now.

        A lake that nobody polled for long looks the same as a clock that is ahead. So a clock is
        believed that keeps its time for BELIEVED_AFTER_S after the first poll that was refused.
        """
        if self.believed_until is None or self.contradict(now) is None:
            return None
        until = (self.refused or now) + timedelta(seconds=BELIEVED_AFTER_S)
        return (self.believed_until, until) if now < until else None


def last_polls(
    spark: SparkSession, lake: Lake, now: datetime, clusters: Collection[str] | None = None
) -> LastPolls:
    """The last polls of a lake; of these clusters alone, unless `clusters` is None."""
    polls = _polls(spark, lake)
    if polls is None:
        return LastPolls()
    if clusters is not None:
        polls = polls.where(F.col("cluster").isin(list(clusters)))
    refused = polls.where(_is_due(now - DAY, now)).where(_IS_REFUSED).agg(F.min("scheduled_at"))
    newest = _newest(polls, now)
    earlier = _newest(polls, newest - _APART) if newest is not None and now - newest > DAY else None
    return LastPolls(newest, earlier, _time(refused))


def time_by_polls(spark: SparkSession, lake: Lake, now: datetime) -> datetime | None:
    """The time that retention goes by: `now` as soon as there are polls of a whole day before it;
    else a day after the last poll of before. None: nothing was polled so long ago.

    So a wrong clock that was believed has a day in which somebody can notice before anything is
    dropped by it, and a lake that nobody polled for a year drops nothing of its last days at once.
    """
    polls = _polls(spark, lake)
    newest = None if polls is None else _newest(polls, now - DAY)
    return None if newest is None else newest + DAY


_IS_REFUSED = "coalesce(error_kind, '') = 'clock'"


def _polls(spark: SparkSession, lake: Lake) -> DataFrame | None:
    if not table_exists(spark, lake, METADATA_POLLS):
        return None
    return lake.read(spark, METADATA_POLLS).where("record = 'poll'")


def _is_due(since: datetime, until: datetime) -> Column:
    """A poll that is due then, in few files: its rows have the day on which it was due."""
    days = (F.lit(at.astimezone(UTC).date()) for at in (since, until))
    of_days = F.col("day").between(*days)
    return of_days & F.col("scheduled_at").between(F.lit(since), F.lit(until))


def _newest(polls: DataFrame, until: datetime) -> datetime | None:
    """When the last poll was due, up to then, that was not refused: mostly within a day before."""
    good = polls.where(f"NOT ({_IS_REFUSED})")
    for rows in (
        good.where(_is_due(until - DAY, until)),
        good.where(F.col("scheduled_at") <= F.lit(until)),
    ):
        if (found := _time(rows.agg(F.max("scheduled_at")))) is not None:
            return found
    return None


def _time(row: DataFrame) -> datetime | None:
    """The time in a frame of one row and column. Arrow says of which zone it is, Row does not."""
    found: datetime | None = row.toArrow().column(0)[0].as_py()
    return found


def _shown(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
