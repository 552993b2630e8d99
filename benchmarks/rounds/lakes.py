"""Lakes of made-up clusters, and rounds of history that are timed in them, in one session."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from benchmarks.product import ProductError, append_polls, configured, round_once
from benchmarks.rounds.made_up import MadeUpCluster, MadeUpPoller
from schemas import gold
from schemas.in_spark import ensure_lake
from schemas.lake import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from schemas.table import Table

    Change = Callable[[MadeUpCluster, int], object]
    """Changes a cluster before the poll at this place of its batch."""

WARM_UP: Final = 2
CLUSTERS_A_FILE: Final = 64
"""As many as a task polls."""

_POLLS: Final = ("poll", "first_poll", "prev_poll", "last_poll", "superseded_poll", "ended_poll")
_LIVE: Final = ("is_current", "is_live", "is_open")


class MadeUpLake:
    """A lake in which made-up clusters have a history that begins with a first batch."""

    def __init__(self, spark: SparkSession, folder: Path, poller: MadeUpPoller) -> None:
        self.folder = folder
        self._spark = spark
        self._poller = poller
        self._config = configured(folder, [cluster.alias for cluster in poller.clusters])
        ensure_lake(spark, self._config.lake)

    def fill(self, change: Change | None = None) -> float:
        """Append a batch of polls and make history of all of it; return the seconds it takes."""
        self._append(self._poller.batch(change))
        start = time.perf_counter()
        while round_once(self._spark, self._config):
            pass
        return time.perf_counter() - start

    def round(self, change: Change | None = None) -> float:
        """Append a batch of polls and return the seconds that a round takes."""
        return self.round_of(self._poller.batch(change))

    def round_of(self, rows: pa.Table) -> float:
        """Append these polls and return the seconds that a round takes."""
        self._append(rows)
        start = time.perf_counter()
        round_once(self._spark, self._config)
        return time.perf_counter() - start

    def _append(self, rows: pa.Table) -> None:
        append_polls(
            self._spark, self._config, rows, files=-(-len(self._poller.clusters) // CLUSTERS_A_FILE)
        )

    def rounds(self, change_of: Callable[[int], Change | None], runs: int) -> list[float]:
        """Return what so many rounds take, after some that warm up.

        `change_of`: the change of each run.
        """
        warm_up = min(WARM_UP, runs)
        return [self.round(change_of(run)) for run in range(warm_up + runs)][warm_up:]

    def check(self) -> None:
        """Raise ProductError unless gold has each change of a leader once: a round that did nothing
        would be a fast one.
        """
        wanted = sum(int(cluster.leader_epoch.sum()) for cluster in self._poller.clusters)
        found = (
            self._config.lake.read(self._spark, gold.LEADER_CHANGES)
            .where("leader_epoch > 0")
            .count()
        )
        if found != wanted:
            raise ProductError(
                f"{gold.LEADER_CHANGES.full_name} has {found} changes of leaders, of {wanted} "
                "there were"
            )

    def with_a_past(self, folder: Path, times: int, span: timedelta) -> MadeUpLake:
        """Return a lake with the same history in `folder`, and before it what is over in it so many
        times more, `span` apart.
        """
        shutil.copytree(self.folder, folder)
        other = MadeUpLake(self._spark, folder, self._poller)
        for table in TABLES:
            if set(_POLLS) & set(table.column_names):
                _repeat(
                    self._config.lake.read(self._spark, table),
                    table,
                    other._config.lake.path(table),
                    times,
                    span,
                )
        return other


def nothing(_run: int) -> None:
    """Change nothing, in whatever run."""


def broker_goes_or_comes(broker: int, place: int) -> Callable[[int], Change]:
    """Stop a broker before this poll of the batch of every other run; start it in the others."""

    def change_of(run: int) -> Change:
        def change(cluster: MadeUpCluster, at: int) -> None:
            if at == place:
                (cluster.start if run % 2 else cluster.stop)(broker)

        return change

    return change_of


def some_change(count: int) -> Callable[[int], Change]:
    """Change so many partitions of each cluster before the first poll of each batch."""
    return lambda _run: lambda cluster, at: None if at else cluster.change(count)


def _repeat(rows: DataFrame, table: Table, path: str, times: int, span: timedelta) -> None:
    """Append what is over, earlier each time, as runs and upkeep leave it: in files by time."""
    live = [name for name in _LIVE if name in rows.columns]
    over = rows.where(" AND ".join(f"NOT {name}" for name in live) or "true")
    shifted = over.crossJoin(
        over.sparkSession.range(1, times + 1).withColumnRenamed("id", "_round")
    )
    micros = F.col("_round") * int(span.total_seconds() * 1_000_000)
    moved = dict(_moved(table, micros))
    past = (
        shifted.withColumns(moved).repartitionByRange(times, "_round").select(*table.column_names)
    )
    past.write.format("delta").mode("append").save(path)


def _moved(table: Table, micros: F.Column) -> Iterator[tuple[str, F.Column]]:
    # Polls sort by their streams, which begin with a year.
    earlier = F.lpad(F.lit(999) - F.col("_round"), 4, "1")
    for column in table.columns:
        if column.name in _POLLS:
            yield column.name, F.concat(earlier, F.substring(column.name, 5, 100))
        elif column.name == "id":
            yield "id", F.md5(F.concat_ws("-", "id", "_round"))
        elif (
            column.type == "timestamp"
            and column.name != "updated_at"
            and column.generated_as is None
        ):
            yield column.name, F.timestamp_micros(F.unix_micros(column.name) - micros)


def made_up(
    aliases: Sequence[str], topics: int, partitions: int, brokers: int
) -> list[MadeUpCluster]:
    """Return clusters that are alike."""
    return [MadeUpCluster(alias, topics, partitions, brokers) for alias in aliases]
