"""Lakes that are exported and imported: history goes on as if it had never moved."""

import json
import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import export, import_history
from jobs.configuration.config import Config
from jobs.copies.exported import exported
from jobs.copies.imported import imported
from jobs.rounds.commit import append_rows
from kafka_metadata_history.opened import without_spark
from schemas import bronze
from schemas.imports import IMPORT
from schemas.lake import Lake, LakeError
from schemas.table import LAKE_VERSION
from tests.support.bronze_rows import bronze_rows
from tests.support.incident import answers
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import make_history, new_lake, rows_of
from tests.support.poll_lakes import Tables, compared, history_of, made, states
from tests.support.poll_lakes import TABLES as OF_POLLS
from tests.support.store_lake import POLLS, stored, unpacked
from tests.support.stored import newest_states, rows_of as stored_rows
from schemas.internal import STATE


def taken(spark: SparkSession, lake: Lake, place: Path) -> list[str]:
    config = Config(lake, f"{lake.root}/_checkpoints", {}, {}, bronze_retention=timedelta(days=7))
    return [*imported(spark, config, str(place))]


def written(spark: SparkSession, lake: Lake, place: Path, cluster: str | None = None) -> Path:
    assert [*exported(spark, lake, str(place), cluster)]
    return place


@pytest.fixture(scope="module")
def c0(spark: SparkSession, half: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of one of two clusters."""
    return written(spark, half, tmp_path_factory.mktemp("exports") / "c0", "c0")


@pytest.fixture(scope="module")
def c1(spark: SparkSession, half: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of the other one."""
    return written(spark, half, tmp_path_factory.mktemp("exports") / "c1", "c1")


@pytest.fixture(scope="module")
def with_c1(
    spark: SparkSession, c1: Path, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """A lake into which that one was imported, and nothing else."""
    lake = new_lake(spark, tmp_path_factory.mktemp("with_c1") / "lake")
    taken(spark, lake, c1)
    return lake


def assert_history(lake: Lake, whole: Tables) -> None:
    """As of the lake that was never moved."""
    for table, rows in whole.items():
        found = newest_states(lake) if table is STATE else stored_rows(lake, table)
        found = [row for row in found if row.get("history") != IMPORT]
        assert compared(table, found) == rows, table.full_name


def test_clusters_that_were_exported_apart_are_taken_on_together(
    spark: SparkSession, with_c1: Lake, c0: Path, whole: Tables, tmp_path: Path
) -> None:
    lake = Lake(root=str(shutil.copytree(str(with_c1), tmp_path / "lake")))
    with killed_after(4), pytest.raises(KilledError):
        taken(spark, lake, c0)
    not_ended = "the import of c0 has not ended: run `kafka-metadata-history import --from "
    with pytest.raises(LakeError, match=not_ended):
        without_spark(lake)("SELECT cluster FROM gold.leader_changes")
    with pytest.raises(LakeError, match=not_ended):
        history_of(spark, lake)
    with killed_at("done", before=True), pytest.raises(KilledError):
        taken(spark, lake, c0)
    with pytest.raises(LakeError, match=not_ended):
        history_of(spark, lake)
    assert "imported c0" in taken(spark, lake, c0)[-1]
    with pytest.raises(LakeError, match=r"has the cluster c0 \(.+\) already"):
        taken(spark, lake, c0)
    assert {*states(lake)} == {"c0", "c1"}
    made(spark, lake, polls_per_round=6)
    assert_history(lake, whole)
