"""Silver that validation has not seen: the polls of each cluster in (done, settled]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from schemas import silver
from schemas.lake import Lake
from schemas.table import Table

State = Mapping[str, Any]
"""A row of internal.state."""


@dataclass(frozen=True)
class Window:
    """The polls of each cluster that a run looks at.

    `clusters` has a row for each: cluster_id, cluster, done_poll (empty: nothing is done yet) and done_at (null),
    settled_poll and settled_at; a small frame that is joined to everything. `since` is the oldest done_at, None where a
    cluster is new. `done`: the rows of internal.state that say that the window was looked at.
    """

    lake: Lake
    clusters: DataFrame
    since: datetime | None
    done: Sequence[State]

    def later(self, table: Table, time: str) -> DataFrame:
        """Rows of `table` whose `time` is null, or not before the window. Files of older rows alone are not read."""
        rows = self.lake.read(self.clusters.sparkSession, table)
        return rows if self.since is None else rows.where((F.col(time) >= self.since) | F.col(time).isNull())

    def read(self, table: Table, time: str) -> DataFrame:
        """Rows of a snapshot table, like `later`, as they were when the window ended: what came after is not known yet.

        `is_new`: whether the row began in the window; `is_changed`: whether it began or was superseded in it.
        """
        rows = self._with_bounds(self.later(table, time)).where("first_poll <= settled_poll")
        ends = {name: F.expr(f"IF(superseded_poll > settled_poll, NULL, {name})") for name in silver.INTERVAL_ENDS}
        is_new, is_over = F.expr("first_poll > done_poll"), F.expr("coalesce(superseded_poll > done_poll, false)")
        changes = {"is_new": is_new, "is_changed": is_new | is_over}
        return rows.withColumns(ends).withColumns(changes).drop(*_BOUNDS, "is_current")

    def within(self, rows: DataFrame, poll: str) -> DataFrame:
        """Those of `rows` of which the poll that the column `poll` names is in the window."""
        return self._with_bounds(rows).where(f"{poll} > done_poll AND {poll} <= settled_poll").drop(*_BOUNDS)

    def _with_bounds(self, rows: DataFrame) -> DataFrame:
        return rows.join(F.broadcast(self.clusters.drop("cluster")), "cluster_id")


_BOUNDS = ("done_poll", "done_at", "settled_poll", "settled_at")
_CLUSTERS = (
    "cluster_id string, cluster string, done_poll string, done_at timestamp, settled_poll string, settled_at timestamp"
)


def window_of(spark: SparkSession, lake: Lake, job: str, states: Sequence[State]) -> Window | None:
    """Silver that is new to `job`, by their rows of internal.state; None when nothing is."""
    done = {row["cluster_id"]: row for row in states if row["history"] == job}
    nothing = {"done_poll": "", "done_at": None}
    known = [row for row in states if row["history"] == "silver" and row["done_poll"] is not None]
    pairs = [(row, done.get(row["cluster_id"], nothing)) for row in known]
    new = [(row, before) for row, before in pairs if before["done_poll"] < row["done_poll"]]
    if not new:
        return None
    bounds = [
        (row["cluster_id"], row["cluster"], before["done_poll"], before["done_at"], row["done_poll"], row["done_at"])
        for row, before in new
    ]
    times = [before["done_at"] for _, before in new]
    noted = {row["cluster"]: row for row in done.values()} | {row["cluster"]: _done(job, row) for row, _ in new}
    since = None if None in times else min(times)
    return Window(lake, spark.createDataFrame(bounds, _CLUSTERS), since, list(noted.values()))


def _done(job: str, silver_row: State) -> State:
    of = {name: silver_row[name] for name in ("cluster", "cluster_id", "done_poll", "done_at")}
    return {"history": job, "round": 0, "memory": "{}", **of}
