"""Histories of the answers to one question beside polls, which bronze has: no other history comes
before them.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.configuration.config import Config
from jobs.histories.visits import headers_of, is_planned
from jobs.rounds.appended import appended
from jobs.rounds.commit import newest_version
from jobs.rounds.history import Context, History, News
from jobs.rounds.plan import State, States, states_of
from schemas.bronze import METADATA_POLLS

Row = dict[str, Any]
N = TypeVar("N", bound=News)


@dataclass(frozen=True)
class AnswersPlan:
    """The polls whose answers a round takes, by alias. `at`: of the round."""

    at: datetime
    polls: dict[str, list[str]]


def plan_of(headers: Iterable[Row], at: datetime) -> AnswersPlan:
    """The plan of a round that takes these answers."""
    plan = AnswersPlan(at, {})
    for header in headers:
        plan.polls.setdefault(header["cluster"], []).append(header["poll_id"])
    return plan


def days_needed(job: str, asked: str) -> str:
    """The query of History.needs for such a history."""
    return f"""
        SELECT min(day) FROM {{rows}} LEFT JOIN (
          SELECT cluster, done_poll FROM {{states}} WHERE history = '{job}'
        ) USING (cluster)
        WHERE {asked} AND NOT coalesce(poll_id <= done_poll, false)
    """


class OfAnswers(History[N]):
    """A history of the answers whose headers satisfy `asked`, a condition in SQL."""

    asked: ClassVar[str]
    plan_type = AnswersPlan

    def __init__(self) -> None:
        self._version = -1
        """Of bronze.metadata_polls, up to which all answers were taken; -1 before any."""

    @abstractmethod
    def taken(
        self,
        context: Context,
        polls: DataFrame | None,
        headers: Sequence[Row],
        at: datetime,
        *,
        is_more: bool = False,
    ) -> N:
        """The news of these answers, `polls` are rows of bronze with all that they tell. None:
        there is no answer.
        """

    def due(self, context: Context, now: datetime) -> N:
        """The answers that no round has taken, of each cluster up to so many."""
        version = newest_version(context.spark, context.lake, METADATA_POLLS)
        if version == self._version:
            return self.taken(context, None, [], now)
        polls = self._polls(context, version)
        new = polls.where(self._is_not_taken(context.states))
        headers = headers_of(new, self.asked, context.left_out)
        most = context.config.polls_per_round
        taken = [header for of_alias in headers.values() for header in of_alias[:most]]
        is_more = len(taken) < sum(map(len, headers.values()))
        if not is_more:
            self._version = version
        return self.taken(context, polls, taken, now, is_more=is_more)

    def planned(self, context: Context, plan: AnswersPlan) -> N:
        """The answers beside planned polls."""
        polls = context.lake.read(context.spark, METADATA_POLLS)
        headers = headers_of(polls.where(is_planned(plan.polls)), self.asked)
        return self.taken(context, polls, [*chain.from_iterable(headers.values())], plan.at)

    def go_back(self, context: Context) -> Iterable[State]:  # noqa: ARG002
        """Look at all answers again that no round has taken."""
        self._version = -1
        return ()

    def waits(self, spark: SparkSession, config: Config) -> bool:
        """Whether bronze has answers that no round has taken."""
        answers = config.lake.read(spark, METADATA_POLLS).where(self.asked)
        return not answers.where(self._is_not_taken(states_of(spark, config.lake))).isEmpty()

    def _polls(self, context: Context, version: int) -> DataFrame:
        """The rows of bronze since the version that was looked at, up to another one."""
        if not 0 <= self._version < version:
            return context.lake.read_version(context.spark, METADATA_POLLS, version)
        return appended(context.spark, context.lake, METADATA_POLLS, self._version + 1, version)

    def _is_not_taken(self, states: States) -> Column:
        """That a poll came after those that rounds have taken."""
        done = [
            (cluster, row["done_poll"])
            for (history, cluster), row in states.items()
            if history == self.job
        ]
        if not done:
            return F.lit(True)
        known = F.create_map(*(F.lit(each) for pair in done for each in pair))
        return F.coalesce(F.col("poll_id") > known[F.col("cluster")], F.lit(True))
