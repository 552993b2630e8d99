"""Bronze polls -> silver snapshots: state over time, kept by the rules of jobs/rules/snapshots.py.

spark-submit jobs/snapshot_history.py --config FILE [--once]
"""

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime
from functools import partial, reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from jobs.common.cli import run_job
from jobs.common.config import Config
from jobs.common.upkeep import keep_up, next_due
from jobs.common.writes import delete_matching, upsert
from jobs.rules import acceptance, enrichments, snapshots
from schemas import bronze, silver
from schemas.lake import Lake, LakeError, ensure_tables, table_exists
from schemas.table import Table

QUERY = "snapshot_history"
LOOK_EVERY = "1 second"
"""How often the running query looks for new polls; without, it lists the table's log a hundred times a second."""


_WRITERS = ThreadPoolExecutor(4, "snapshot_history")
"""Planning a table's rows and their MERGE takes longer than either, on one core each: tables are written side by side."""


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    return run_job(QUERY, __doc__ or "", run, argv)


def run(spark: SparkSession, config: Config, once: bool) -> None:
    """Keep silver up with bronze on and on; with `once`, until it has caught up."""
    start(spark, config, once=once).awaitTermination()
    if once and next_due(spark, config.lake) <= datetime.now(UTC):
        keep_up(spark, config.lake, config.bronze_retention)


def start(spark: SparkSession, config: Config, *, once: bool) -> StreamingQuery:
    """Start the query that keeps silver up with bronze; with `once` it ends when it has caught up."""
    lake = config.lake
    check_progress(spark, config)
    ensure_tables(spark, lake, (*bronze.TABLES, *silver.TABLES))
    first_batch, upkeep_due = True, next_due(spark, lake)

    def apply_batch(batch: DataFrame, _: int) -> None:
        nonlocal first_batch, upkeep_due
        apply_polls(whole_polls(batch, lake), lake)
        # Not after the first batch: it may be an old one done again, with polls behind it that lie in files just as old.
        if not (once or first_batch) and upkeep_due <= datetime.now(UTC):
            keep_up(batch.sparkSession, lake, config.bronze_retention)
            upkeep_due = next_due(batch.sparkSession, lake)
        first_batch = False

    # All there is in one batch: files come by age, and one that retention or OPTIMIZE rewrote is younger than its polls.
    writer = (
        lake.read_stream(spark, bronze.METADATA_POLLS, maxFilesPerTrigger=str(2**31 - 1))
        .writeStream.queryName(QUERY)
        .option("checkpointLocation", config.checkpoint(QUERY))
        .foreachBatch(apply_batch)
    )
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=LOOK_EVERY)).start()


def check_progress(spark: SparkSession, config: Config) -> None:
    """Raise LakeError for a silver that was removed, or all polls before would be missing from it without a word.

    To be asked before tables are made: the query's checkpoint comes into being after them.
    """
    checkpoint = config.checkpoint(QUERY)
    if not table_exists(spark, config.lake, silver.PROGRESS) and _is_there(spark, f"{checkpoint}/metadata"):
        raise LakeError(
            f"{silver.PROGRESS.full_name} is not in {config.lake}, though polls were made history: "
            f"to compute silver from bronze again, remove {checkpoint} too"
        )


def _is_there(spark: SparkSession, file: str) -> bool:
    try:
        spark.read.text(file)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return False
        raise
    return True


def whole_polls(batch: DataFrame, lake: Lake) -> DataFrame:
    """Every row of the polls whose headers are in `batch`.

    A micro-batch takes files, not commits, and compaction moves rows between files: a header could come without its
    topics, which would look like topics that are gone. The table holds each poll whole.
    """
    polls = batch.where("record = 'poll'").select("cluster", "poll_id", "stream", "n").localCheckpoint()
    spans = polls.groupBy("stream").agg(F.min("n"), F.max("n")).collect()
    span = reduce(
        or_,
        ((F.col("stream") == stream) & F.col("n").between(first, last) for stream, first, last in spans),
        F.lit(False),
    )
    return (
        lake.read(batch.sparkSession, bronze.METADATA_POLLS)
        .where(span)
        .join(F.broadcast(polls.select("cluster", "poll_id")), ["cluster", "poll_id"], "left_semi")
    )


def apply_polls(batch: DataFrame, lake: Lake) -> None:
    """Bring silver up to the polls in `batch` (rows as in bronze.metadata_polls).

    Polls that were applied before change nothing, so a batch may be repeated, and cut in any way. silver.progress is
    written last: a run that is killed is redone from there.
    """
    spark = batch.sparkSession
    pending = lake.read(spark, silver.PENDING)
    headers = snapshots.take(batch, pending, lake.read(spark, silver.PROGRESS)).localCheckpoint()
    taken = headers.agg(
        F.count("*").alias("polls"),
        F.min(F.unix_micros("applied.applied_at")).alias("since"),
    ).collect()[0]
    if not taken.polls:
        _forget_applied(lake, spark)
        return
    intake = snapshots.Intake(headers, snapshots.answers_of(headers, batch, pending))

    def open_rows(table: Table, *, by_topic: bool = False) -> DataFrame:
        # Rows that ended before the oldest applied poll of these clusters are history that no run looks at again.
        rows = lake.read(spark, table).where(
            F.col("superseded_at").isNull() | (F.col("superseded_at") >= F.timestamp_micros(F.lit(taken.since)))
        )
        return snapshots.open_rows(rows, intake.applied, by_topic=by_topic)

    changes: dict[Table, DataFrame] = {}
    digests = lake.read(spark, silver.TOPIC_DIGESTS)
    said = snapshots.said_of_topics(intake, open_rows(silver.TOPIC_SNAPSHOTS, by_topic=True), digests).localCheckpoint()
    if said.isEmpty():
        verdicts = snapshots.judge(intake, spark.createDataFrame([], acceptance.EPOCHS_SCHEMA)).localCheckpoint()
        missing = spark.createDataFrame([], "cluster string, topic string")
    else:
        open_partitions = open_rows(silver.PARTITION_SNAPSHOTS, by_topic=True)
        partitions = snapshots.said_of_partitions(intake, said, open_partitions).localCheckpoint()
        verdicts = snapshots.judge(intake, snapshots.observed_epochs(said, partitions)).localCheckpoint()
        lives = snapshots.topic_lives(said, verdicts).localCheckpoint()
        missing = lives.where("missing").select("cluster", "topic")
        changes[silver.PARTITION_SNAPSHOTS] = snapshots.partition_intervals(partitions, lives)
        changes[silver.TOPIC_SNAPSHOTS] = snapshots.topic_intervals(lives)
    if not snapshots.changed_headers(intake, verdicts).isEmpty():
        changes[silver.BROKER_SNAPSHOTS] = snapshots.broker_intervals(
            intake.polls, verdicts, open_rows(silver.BROKER_SNAPSHOTS)
        )
        changes[silver.CLUSTER_SNAPSHOTS] = snapshots.cluster_intervals(
            intake.polls, verdicts, open_rows(silver.CLUSTER_SNAPSHOTS)
        )

    ids = intake.cluster_ids
    placed = {table: snapshots.placed_in_time(rows, verdicts, ids, table) for table, rows in changes.items()}
    placed |= _enrichments(intake, verdicts, open_rows)
    writes = [partial(_write_intervals, rows, lake, table) for table, rows in placed.items()]
    writes.append(partial(_write, snapshots.poll_gaps(verdicts, ids), lake, silver.POLL_GAPS))
    if changes:
        writes.append(partial(_write, snapshots.topic_digests(said, verdicts), lake, silver.TOPIC_DIGESTS))
    waiting = verdicts.where("verdict = 'pending'").select("cluster", "poll_id")
    if not waiting.isEmpty():
        rows = batch.join(F.broadcast(waiting), ["cluster", "poll_id"], "left_semi")
        writes.append(partial(_write, rows, lake, silver.PENDING))
    written, _ = wait([_WRITERS.submit(write) for write in writes])
    for each in written:
        each.result()
    upsert(snapshots.next_progress(intake, verdicts, missing), lake, silver.PROGRESS)
    _forget_applied(lake, spark)


def _enrichments(
    intake: snapshots.Intake, verdicts: DataFrame, open_rows: Callable[[Table], DataFrame]
) -> dict[Table, DataFrame]:
    """The rows to write to tables of enrichments, of the kinds that said something new."""
    lines = enrichments.lines_of(intake.polls, verdicts).localCheckpoint()
    answered = [kind for (kind,) in lines.where("ord > 0").select("kind").distinct().collect()]
    if not answered:
        return {}
    so_far = {kind: open_rows(silver.ENRICHMENTS[kind]) for kind in answered}
    things = enrichments.answered_intervals(intake.answers, lines, so_far)
    changed = things.where("first_poll IS NULL OR superseded_ord IS NOT NULL").localCheckpoint()
    return {
        silver.ENRICHMENTS[kind]: snapshots.placed_in_time(
            enrichments.rows_of(kind, changed),
            lines.where(F.col("kind") == kind),
            intake.cluster_ids,
            silver.ENRICHMENTS[kind],
        )
        for (kind,) in changed.select("kind").distinct().collect()
    }


def _write_intervals(rows: DataFrame, lake: Lake, table: Table) -> None:
    """Write new rows and the ends of open ones; nothing at all when there are none."""
    rows = rows.localCheckpoint()
    oldest = rows.agg(F.min(F.unix_micros(F.least("first_seen_at", "superseded_at")))).collect()[0][0]
    if oldest is not None:
        # A row that has one of these keys is open, or was closed by a killed run: not before the oldest of these times.
        within = f"t.superseded_at IS NULL OR t.superseded_at >= timestamp_micros({oldest})"
        upsert(rows, lake, table, update=silver.INTERVAL_ENDS, within=within)


def _write(rows: DataFrame, lake: Lake, table: Table) -> None:
    rows = rows.localCheckpoint()
    if not rows.isEmpty():
        upsert(rows, lake, table)


def _forget_applied(lake: Lake, spark: SparkSession) -> None:
    """Drop the answers that waited, of clusters where they do no longer; those too that a killed run has not dropped."""
    settled = lake.read(spark, silver.PROGRESS).where("stale_polls = 0").select("cluster")
    if not lake.read(spark, silver.PENDING).join(F.broadcast(settled), "cluster", "left_semi").isEmpty():
        delete_matching(settled, lake, silver.PENDING, "t.cluster = s.cluster")


if __name__ == "__main__":
    sys.exit(main())
