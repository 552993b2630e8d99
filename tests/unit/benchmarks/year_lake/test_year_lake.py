"""A made-up lake of a year is one of this version: its rows satisfy what every row must."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.asked import measured
from benchmarks.year_lake.__main__ import CONFIG, make
from benchmarks.year_lake.clusters import clusters
from benchmarks.year_lake.tables import ALL
from jobs.configuration.config import load
from kafka_metadata_history.answers.whatif.read import read_record
from kafka_metadata_history.opened import InDuckDB, status_without_spark, without_spark
from schemas.lake import TABLES, Lake
from schemas.table import Table
from tests.support.for_each import for_each
from tests.support.stored import as_text, rows_of

SIZES = {"small": 1, "weeks": 5, "groups": 3, "topics": 25, "large_topics": 30}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("year") / "year"
    make(made, clusters(**SIZES), print)
    return made


@pytest.fixture(scope="module")
def lake(folder: Path) -> Lake:
    return load(str(folder / CONFIG)).lake


@pytest.fixture(scope="module")
def ask(lake: Lake) -> InDuckDB:
    return without_spark(lake)


@for_each("table", [each.table for each in ALL])
def test_rows_satisfy_what_every_row_must(ask: InDuckDB, table: Table) -> None:
    needed = [f"`{each.name}` IS NOT NULL" for each in table.columns if not each.nullable]
    generated = [
        f"`{each.name}` = ({each.generated_as})" for each in table.columns if each.generated_as
    ]
    checks = ", ".join(
        f"count_if(NOT coalesce({check}, true))"
        for check in (*needed, *generated, *table.constraints.values())
    )
    keys = f"count(DISTINCT struct({', '.join(f'`{each}`' for each in table.key)}))"
    (row,) = ask(f"SELECT count(*), {keys}, {checks} FROM {table.full_name}").to_pylist()
    rows, of_keys, *broken = row.values()
    assert rows == of_keys
    assert not any(broken)


def test_states_follow_without_a_gap(ask: InDuckDB) -> None:
    (row,) = ask("""
        SELECT count(*) AS rows, count_if(valid_from <> before OR leader_epoch < epoch) AS gaps
        FROM (
          SELECT *, lag(valid_to) OVER w AS before, lag(leader_epoch) OVER w AS epoch
          FROM silver.partition_snapshots
          WINDOW w AS (PARTITION BY cluster_id, topic, partition ORDER BY first_poll)
        )""").to_pylist()
    assert row["rows"] > 10_000
    assert row["gaps"] == 0


def test_its_readers_open_it(folder: Path, lake: Lake, ask: InDuckDB) -> None:
    found = status_without_spark(load(str(folder / CONFIG)), datetime.now(UTC))
    assert [each.cluster for each in found.clusters] == ["cluster-00", "cluster-01"]
    assert len(found.sizes) == len(TABLES)
    record = read_record(ask, "cluster-00", None, datetime.now(UTC), {})
    assert len(record.cluster.partitions) == 25 * 10 + 50


def test_questions_are_measured_cold_and_warm(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.asked.names", lambda: ["restarts"])
    found = measured(folder / CONFIG, print, 1)
    assert [*found] == ["asked_restarts_cold_s", "asked_restarts_warm_s"]
    assert found["asked_restarts_cold_s"].value > found["asked_restarts_warm_s"].value


def test_it_is_the_same_each_time(lake: Lake, tmp_path: Path) -> None:
    make(tmp_path / "again", clusters(**SIZES), print)
    again = load(str(tmp_path / "again" / CONFIG)).lake
    for table in (each for each in TABLES if each.schema != "bronze"):
        assert as_text(rows_of(again, table)) == as_text(rows_of(lake, table)), table.full_name
