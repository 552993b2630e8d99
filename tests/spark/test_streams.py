"""A stream whose query Spark itself ends by a fault."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jobs.run import streams
from jobs.run.driver import last_batch
from jobs.run.streams import Running, start_writing
from schemas import silver
from schemas.in_spark import ensure_tables
from schemas.lake import Lake
from tests.support.waiting import eventually


def test_a_query_whose_python_dies_before_it_gets_anywhere_is_started_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_AGAIN_AFTER_S", 0.05)
    deaths = tmp_path / "deaths"
    deaths.mkdir()

    def die_twice(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if (died := len(list(deaths.iterdir()))) < 2:
            (deaths / str(died)).touch()
            os._exit(1)
        yield from batches

    def start() -> StreamingQuery:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load().coalesce(1)
        writer = rows.mapInArrow(die_twice, "timestamp timestamp, value long").writeStream.format(
            "noop"
        )
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    running = Running(start)

    def has_read() -> bool:
        assert running.keep()
        progress = running.query.lastProgress
        return bool(progress and progress.numInputRows)

    try:
        eventually(has_read, "rows", within=120)
    finally:
        running.query.stop()
    progress = running.query.lastProgress
    assert progress is not None
    assert last_batch(running.query) == progress.batchId
    assert len(list(deaths.iterdir())) == 2


def test_a_stream_into_a_catalog_is_started_by_any_thread(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As `run --once` does, beside other work: no session is active in a thread of a pool."""
    lake, table = Lake(catalog="spark_catalog"), replace(silver.POLL_GAPS, schema="silver_streamed")
    ensure_tables(spark, lake, [table])
    no_rows = [f"CAST(NULL AS {each.type}) AS {each.name}" for each in table.columns]
    rows = spark.readStream.format("rate").load().where("value < 0").selectExpr(*no_rows)
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(start_writing, spark, writer.trigger(availableNow=True), lake, table)
    started.result().awaitTermination()
    spark.sql(f"DROP TABLE {lake.identifier(table)}")
