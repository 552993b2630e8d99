"""What commits have appended is read alone while Delta still knows it, and else with all rows of
the table.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.rounds.appended import READ_WITHIN, appended, upto
from jobs.run import driver
from jobs.run.driver import clean_log, committed_at, newest_commit
from schemas.bronze import CLUSTER_LOG
from schemas.lake import Lake
from tests.support.cluster_logs import span
from tests.support.lakes import new_lake
from tests.support.stored import append

NOW = datetime.now(UTC)


def read(offset: int) -> dict[str, Any]:
    return span("read", offset, offset + 1, NOW) | {"day": NOW.date()}


def make_older(lake: Lake, by: timedelta) -> None:
    """Delta goes by the times of its log's files, and lets none come before an earlier one."""
    at = (datetime.now(UTC) - by).timestamp()
    for place, file in enumerate(sorted((Path(lake.path(CLUSTER_LOG)) / "_delta_log").glob("0*"))):
        os.utime(file, (at + place / 1000, at + place / 1000))


def test_a_reader_that_stood_still_reads_all_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    def offsets(first: int, last: int) -> list[int]:
        return sorted(
            row.offset
            for row in appended(spark, lake, CLUSTER_LOG, first, last).select("offset").collect()
        )

    lake = new_lake(spark, tmp_path, [CLUSTER_LOG])
    for offset in range(4):
        append(lake, CLUSTER_LOG, [read(offset)])
    assert offsets(2, 3) == [1, 2]
    files_stay = timedelta(hours=CLUSTER_LOG.log_hours)
    make_older(lake, files_stay - READ_WITHIN - timedelta(minutes=5))
    assert offsets(2, 3) == [1, 2]
    make_older(lake, files_stay - READ_WITHIN + timedelta(minutes=5))
    assert offsets(2, 3) == [0, 1, 2], "VACUUM may take what compaction has replaced"
    assert upto(spark, lake, CLUSTER_LOG, 2, 4) == 4
    make_older(lake, 2 * files_stay)
    append(lake, CLUSTER_LOG, [read(9) | {"read_at": NOW + files_stay}])
    old = appended(spark, lake, CLUSTER_LOG, 2, 3, planned=NOW).select("offset").collect()
    assert sorted(row.offset for row in old) == [0, 1, 2, 3], (
        "Delta reads no version that old, and a plan holds"
    )
    assert upto(spark, lake, CLUSTER_LOG, 2, 1_000) == 1_000, "Delta reads the newest version alone"
    DeltaTable(lake.path(CLUSTER_LOG)).create_checkpoint()
    make_older(lake, files_stay + timedelta(minutes=1))
    append(lake, CLUSTER_LOG, [read(4)])
    clean_log(spark, lake.identifier(CLUSTER_LOG))
    log = Path(lake.path(CLUSTER_LOG)) / "_delta_log"
    assert sorted(file.stem for file in log.glob("*.json")) == [
        f"{version:020}" for version in (5, 6)
    ]
    assert offsets(2, 6) == [0, 1, 2, 3, 4, 9], "the log knows no more who appended what"
    assert offsets(6, 6) == [4], "others read on"


def test_deltas_classes_say_of_commits_what_sql_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of Spark Connect asks in SQL."""
    lake = new_lake(spark, tmp_path, [CLUSTER_LOG])
    table = lake.identifier(CLUSTER_LOG)
    append(lake, CLUSTER_LOG, [read(0)])
    newest_commit(spark, table)
    append(lake, CLUSTER_LOG, [read(1)])
    make_older(lake, timedelta(hours=5))

    def said() -> list[Any]:
        return [newest_commit(spark, table), *(committed_at(spark, table, n) for n in range(3))]

    by_classes = said()
    assert by_classes[0].version == 2
    assert NOW - by_classes[1] > timedelta(hours=4)
    monkeypatch.setattr(driver, "has_jvm", lambda _: False)
    assert said() == by_classes
