"""How far a job has come: what silver has that is not in gold yet, and how it gets there.

A run makes events of the polls of each cluster in (done, settled]. It looks at gold as it was at `done`, whatever a killed run
has written beyond, so that doing it again gives the same rows. gold.progress is written last.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.common.writes import GONE, upsert
from schemas import gold, silver
from schemas.lake import Lake, LakeError, check_tables, ensure_tables
from schemas.table import Table

PAUSE_S = 10.0
"""How long a job that goes on and on rests between two runs."""

_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
)
NEVER = 253_402_300_799_999_999
"""The end of the year 9999, microseconds."""
_CLUSTERS = ("done_poll", "done_at", "settled_poll", "settled_at")


@dataclass(frozen=True)
class Window:
    """The polls of each cluster that a run makes events of.

    `clusters` has a row for each: cluster_id, cluster, done_poll and done_at (null: nothing is done yet), settled_poll and
    settled_at (null: never polled); a small frame that is joined to everything. `since` is the oldest done_at in microseconds, None
    where a cluster is new.
    """

    job: str
    lake: Lake
    clusters: DataFrame
    since: int | None

    def new(self, rows: DataFrame) -> DataFrame:
        """Those of `rows` (of a snapshot table) that began in the window."""
        return self.within(rows, "first_poll")

    def ended(self, rows: DataFrame) -> DataFrame:
        """Those of `rows` whose thing ended in the window."""
        return self._where(rows, F.col("ended_as").isNotNull() & _within("superseded_poll"))

    def superseded(self, rows: DataFrame) -> DataFrame:
        """Those of `rows` that another state, or their end, superseded in the window."""
        return self.within(rows, "superseded_poll")

    def before(self, rows: DataFrame) -> DataFrame:
        """Those of `rows` that held when the window began."""
        over = F.coalesce(F.col("superseded_poll") <= F.col("done_poll"), F.lit(False))
        return self._where(rows, (F.col("first_poll") <= F.col("done_poll")) & ~over)

    def known(self, rows: DataFrame) -> DataFrame:
        """Those of `rows` (of a gold table) whose poll was done when the window began."""
        return self._where(rows, F.col("poll") <= F.col("done_poll"))

    def within(self, rows: DataFrame, poll: str) -> DataFrame:
        """Those of `rows` of which the poll that the column `poll` names is in the window."""
        return self._where(rows, _within(poll))

    def with_clusters(self, rows: DataFrame) -> DataFrame:
        """`rows` of the window's clusters, with done_poll, done_at, settled_poll and settled_at."""
        return rows.join(F.broadcast(self.clusters.drop("cluster")), "cluster_id")

    def read(self, table: Table, since: int | None, *times: str, open_too: bool = False) -> DataFrame:
        """Rows of a snapshot table of which one of `times` is not before `since` (microseconds), all where that is None.

        They are as they were when the window ended: what came later is not known yet. `open_too`: current ones too.
        """
        rows = self.with_clusters(rows_since(self.lake.read(self._spark, table), since, *times, open_too=open_too))
        later = F.coalesce(F.col("superseded_poll") > F.col("settled_poll"), F.lit(False))
        return (
            rows.where(F.col("first_poll") <= F.col("settled_poll"))
            .withColumns({name: F.when(~later, F.col(name)) for name in silver.INTERVAL_ENDS})
            .drop(*_CLUSTERS, "is_current")
        )

    def read_gold(self, table: Table, since: int | None, *times: str, open_too: bool = False) -> DataFrame:
        """Rows of a gold table of which one of `times` is not before `since` (microseconds), all where that is None."""
        return rows_since(self.lake.read(self._spark, table), since, *times, open_too=open_too)

    def write(
        self,
        rows: DataFrame,
        table: Table,
        since: int | None,
        *times: str,
        open_too: bool = False,
        gone: DataFrame | None = None,
    ) -> None:
        """Write those of `rows` that the table does not have as they are, and delete those that have the keys of `gone`.

        Rows with their keys are among those that `read_gold` gives for the same arguments.
        """
        names = [name for name in table.column_names if name != "updated_at"]
        stored = self.read_gold(table, since, *times, open_too=open_too)
        changed = (
            rows.select(*names, F.struct(*names).alias("_now"))
            .join(stored.select(*table.key, F.struct(*names).alias("_before")), list(table.key), "left")
            .where(~F.col("_now").eqNullSafe(F.col("_before")))
            .drop("_now", "_before")
        )
        if "updated_at" in table.column_names:
            changed = changed.withColumn("updated_at", F.current_timestamp())
        if gone is not None:
            changed = changed.withColumn(GONE, F.lit(False)).unionByName(
                gone.select(*table.key, F.lit(True).alias(GONE)), allowMissingColumns=True
            )
        changed = changed.localCheckpoint()
        if not changed.isEmpty():
            self.put(changed, table, _not_before(since, *times, open_too=open_too, of="t."))

    def put(self, rows: DataFrame, table: Table, within: str = "true") -> None:
        """Upsert `rows`. Raises LakeError when another run of the job writes the table at the same time."""
        try:
            upsert(rows, self.lake, table, within=within)
        except _CONFLICTS as error:
            raise LakeError(
                f"{table.full_name} in {self.lake}: another run of {self.job} writes it; nothing is lost, run this one again"
            ) from error

    def note_done(self) -> None:
        """Say that the window is in gold."""
        rows = self.clusters.select(
            F.lit(self.job).alias("job"),
            "cluster_id",
            "cluster",
            F.col("settled_poll").alias("done_poll"),
            F.col("settled_at").alias("done_at"),
        )
        self.put(rows, gold.PROGRESS)

    @property
    def _spark(self) -> SparkSession:
        return self.clusters.sparkSession

    def _where(self, rows: DataFrame, condition: Column) -> DataFrame:
        return self.with_clusters(rows).where(condition).drop(*_CLUSTERS)


def _within(poll: str) -> Column:
    return (F.col(poll) > F.coalesce("done_poll", F.lit(""))) & (F.col(poll) <= F.col("settled_poll"))


def rows_since(rows: DataFrame, since: int | None, *times: str, open_too: bool = False) -> DataFrame:
    """Those of a table's `rows` of which one of `times` is not before `since` (microseconds), all where that is None.

    `open_too`: also those of which the times are null. Files of nothing but older rows are passed over.
    """
    return rows.where(_not_before(since, *times, open_too=open_too))


def _not_before(since: int | None, *times: str, open_too: bool, of: str = "") -> str:
    if since is None:
        return "true"
    later = [f"{of}{time} >= timestamp_micros({since})" for time in times]
    return " OR ".join([*later, *(f"{of}{time} IS NULL" for time in times if open_too)])


def new_window(spark: SparkSession, lake: Lake, job: str) -> Window | None:
    """What `job` has to do; None when there is nothing new. `spark`: a session of the job's own, for what it writes."""
    version = version_of(spark, lake, silver.PROGRESS)
    pass_over_if_overtaken(spark, f"{job} {version.table_id}", version.number)
    return window_of(version.rows, lake, job)


def pass_over_if_overtaken(spark: SparkSession, run: str, number: int) -> None:
    """Let Delta pass over what this session writes where a run of the same name with this number, or a higher one, wrote already.

    A run that has been overtaken by a later one must not write what it knew. Ids of the tables that it read belong into the name:
    what was made anew counts from zero again.
    """
    spark.conf.set("spark.databricks.delta.write.txnAppId", run)
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))


def window_of(progress: DataFrame, lake: Lake, job: str) -> Window | None:
    """What is new to `job` by `progress`, rows of silver.progress; None when nothing is."""
    done = lake.read(progress.sparkSession, gold.PROGRESS).where(F.col("job") == job)
    clusters = (
        settled(progress)
        .join(F.broadcast(done.select("cluster_id", "done_poll", "done_at")), "cluster_id", "left")
        .where("done_poll IS NULL OR done_poll < settled_poll")
    )
    return window_over(clusters, lake, job)


def settled(progress: DataFrame) -> DataFrame:
    """cluster_id, cluster, settled_poll, settled_at: up to where nothing can change any more. `progress`: rows of silver.progress."""
    at = F.when(F.col("settled_poll") == F.col("applied_poll"), F.col("applied_at")).otherwise(F.col("before_at"))
    return progress.where("settled_poll IS NOT NULL").select(
        "cluster_id", "cluster", "settled_poll", at.alias("settled_at")
    )


def window_over(clusters: DataFrame, lake: Lake, job: str) -> Window | None:
    """The window of `clusters`, columns as Window has them; None when there are none."""
    times = ("done_at", "settled_at")
    in_micros = clusters.select(
        "cluster_id",
        "cluster",
        "done_poll",
        F.unix_micros("done_at").alias("done_at"),
        "settled_poll",
        F.unix_micros("settled_at").alias("settled_at"),
    )
    rows = in_micros.collect()
    if not rows:
        return None
    since = [row.done_at for row in rows if row.settled_poll is not None]
    # Rows that are here already, so that no plan has to read them again; micros, since Python's times have the zone of here.
    here = clusters.sparkSession.createDataFrame(rows, in_micros.schema).withColumns(
        {name: F.timestamp_micros(name) for name in times}
    )
    return Window(job, lake, here, None if None in since else min(since, default=NEVER))


@dataclass(frozen=True)
class Version:
    """A version of a table: Delta's id of the table, the number, and the rows then."""

    table_id: str
    number: int
    rows: DataFrame


def version_of(spark: SparkSession, lake: Lake, table: Table) -> Version:
    """The newest version of a table, and its rows in it."""
    detail = spark.sql(f"DESCRIBE DETAIL {lake.identifier(table)}").collect()[0]
    newest = spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)} LIMIT 1").collect()[0].version
    return Version(detail.id, newest, lake.read_version(spark, table, newest))


def prepared(
    spark: SparkSession, lake: Lake, tables: tuple[Table, ...], apply: Callable[[SparkSession], None]
) -> Callable[[], None]:
    """Check silver, make the job's tables, and return `apply` bound to a session of its own, to be called again and again."""
    check_tables(spark, lake, silver.TABLES)
    ensure_tables(spark, lake, (*tables, gold.PROGRESS))
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    return partial(apply, own)


def keep_on(make_events: Callable[[], None], *, once: bool) -> None:
    """Call it once, or again and again, a moment after each end."""
    make_events()
    while not once:
        time.sleep(PAUSE_S)
        make_events()
