"""What commits have appended is read alone while Delta still knows it, and else with all rows of the table."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.common.appended import READ_WITHIN, appended
from schemas.bronze import CLUSTER_LOG
from schemas.lake import Lake
from tests.cluster_logs import span
from tests.lakes import new_lake
from tests.support.stored import append

NOW = datetime.now(UTC)


def read(offset: int) -> dict[str, Any]:
    return span("read", offset, offset + 1, NOW) | {"day": NOW.date()}


def make_older(lake: Lake, by: timedelta) -> None:
    """Delta goes by the times of its log's files."""
    at = (datetime.now(UTC) - by).timestamp()
    for commit in (Path(lake.path(CLUSTER_LOG)) / "_delta_log").glob("*.json"):
        os.utime(commit, (at, at))


def test_a_reader_that_stood_still_reads_all_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    def offsets(first: int, last: int) -> list[int]:
        return sorted(row.offset for row in appended(spark, lake, CLUSTER_LOG, first, last).select("offset").collect())

    lake = new_lake(spark, tmp_path, [CLUSTER_LOG])
    for offset in range(4):
        append(lake, CLUSTER_LOG, [read(offset)])
    assert offsets(2, 3) == [1, 2]
    files_stay = timedelta(days=CLUSTER_LOG.log_days)
    make_older(lake, files_stay - READ_WITHIN - timedelta(minutes=5))
    assert offsets(2, 3) == [1, 2]
    make_older(lake, files_stay - READ_WITHIN + timedelta(minutes=5))
    assert offsets(2, 3) == [0, 1, 2], "VACUUM may take what compaction has replaced"
    make_older(lake, files_stay + timedelta(days=2))
    append(lake, CLUSTER_LOG, [read(4)])
    table = DeltaTable(lake.path(CLUSTER_LOG))
    table.create_checkpoint()
    table.cleanup_metadata()
    assert not (Path(lake.path(CLUSTER_LOG)) / "_delta_log" / f"{2:020}.json").exists()
    assert offsets(2, 5) == [0, 1, 2, 3, 4], "the log knows no more who appended what"
