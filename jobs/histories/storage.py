"""Sizes of log directories that polls asked for (`enrich: log_dirs`) -> sizes by day.

A round folds the answers that are new, of each cluster (jobs/rules/storage/fold.py). It reads polls
from bronze, so it waits for no other history.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.configuration import histories
from jobs.histories.answers import OfAnswers, days_needed, plan_of
from jobs.histories.visits import answers_of
from jobs.rounds.history import Context, Inputs, News, Output
from jobs.rounds.live import part_of
from jobs.rounds.plan import State, state_of
from jobs.rules.storage.fold import INPUT, fold
from schemas.bronze import IS_OF_LOG_DIRS, METADATA_POLLS
from schemas.storage import STORAGE
from schemas.table import Table

JOB = histories.STORAGE.name

Row = dict[str, Any]

_LEVEL = """CASE WHEN s.topic IS NULL THEN 'log_dir' WHEN s.partition IS NULL THEN 'topic'
  WHEN s.is_future THEN 'future' ELSE 'partition' END"""


@dataclass(kw_only=True)
class StorageNews(News):
    """The headers of the answers that a round takes, in order."""

    headers: Sequence[Row]


class Storage(OfAnswers[StorageNews]):
    """The history of sizes of log directories."""

    declared = (histories.STORAGE,)
    job = JOB
    key = "cluster"
    by = "cluster_id"
    names = (JOB,)
    tables = (STORAGE,)
    live = (STORAGE,)
    asked = IS_OF_LOG_DIRS
    needs: ClassVar[dict[Table, str]] = {METADATA_POLLS: days_needed(JOB, IS_OF_LOG_DIRS)}

    def taken(
        self,
        context: Context,  # noqa: ARG002
        polls: DataFrame | None,
        headers: Sequence[Row],
        at: datetime,
        *,
        is_more: bool = False,
    ) -> StorageNews:
        """The sizes in these answers."""
        plan = plan_of(headers, at)
        if polls is None or not headers:
            return StorageNews(plan=plan, headers=(), is_more=is_more)
        return StorageNews(
            plan=plan,
            headers=headers,
            rows=[(METADATA_POLLS, _sizes(polls, headers))],
            keys=plan.polls.keys(),
            fold=partial(fold, at=at),
            clusters=plan.polls.keys(),
            is_more=is_more,
            says=f"{len(headers)} answer(s) about log directories of {len(plan.polls)} cluster(s)",
        )

    def read(self, context: Context, news: StorageNews) -> Inputs:
        """New sizes, and the rows of each cluster's newest day."""
        keys: Collection[str] = news.plan.polls.keys()
        parts = {part_of(header["cluster_id"]) for header in news.headers}
        live = {
            table: rows.filter(pc.is_in(rows["cluster"], pa.array(sorted(keys))))
            for table, rows in context.live.of(self.live, parts).items()
        }
        assert news.fold is not None  # noqa: S101 - for mypy
        return Inputs(news.fold, self.tables, news.rows, live)

    def note(self, context: Context, news: StorageNews, output: Output | None) -> Iterable[State]:  # noqa: ARG002 - each answer was taken
        """How far each alias is."""
        last = {header["cluster"]: header for header in news.headers}
        for alias, header in last.items():
            yield state_of(
                JOB,
                alias,
                {},
                cluster_id=header["cluster_id"],
                done_poll=header["poll_id"],
                done_at=header["answered_at"],
            )

    @staticmethod
    def keys_of(rows: pa.Table) -> pa.ChunkedArray:
        """The keys of live rows."""
        return rows["cluster"]


def _sizes(polls: DataFrame, headers: Sequence[Row]) -> DataFrame:
    """The sizes in answers, a row each; of directories with the size of their volume."""
    answers = answers_of(
        polls, headers, "log_dirs", ("broker_id", "log_dirs", "log_dir_sizes"), ("answered_at",)
    )
    sizes = answers.select("*", F.explode("log_dir_sizes").alias("s"))
    volume = "element_at(filter(log_dirs, d -> d.log_dir = s.log_dir), 1)"
    columns = {
        "at": "answered_at",
        "log_dir": "s.log_dir",
        "level": _LEVEL,
        "topic": "s.topic",
        "partition": "s.partition",
        **{
            name: f"s.{name}"
            for name in (
                *("size_bytes", "replicas", "futures", "offset_lag", "changes_left_out"),
                *("usable_bytes", "is_whole"),
            )
        },
        "total_bytes": f"CASE WHEN s.topic IS NULL THEN {volume}.total_bytes END",
    }
    return sizes.selectExpr(*(f"{columns.get(name, name)} AS {name}" for name in INPUT))
