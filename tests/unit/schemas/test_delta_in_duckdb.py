"""DuckDB reads the rows of a Delta table that PyArrow reads through delta-rs."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from kafka_metadata_history.opened import without_spark
from schemas.delta_in_duckdb import query_of
from schemas.in_duckdb import connected
from schemas.incidents import INCIDENTS
from schemas.lake import TABLES, Lake, LakeError
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED
from tests.support.store_lake import stored, unpacked

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def read(folder: Path) -> pa.Table:
    database = connected(Lake(root=str(folder.parent.parent)))
    return database.sql(query_of(database, DeltaTable(folder), str(folder))).to_arrow_table()


def rows(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist(maps_as_pydicts="strict")))


@pytest.mark.parametrize("version", range(OLDEST_UPGRADED, LAKE_VERSION + 1))
def test_lakes_that_spark_wrote(version: int, tmp_path: Path) -> None:
    lake = Lake(root=str(unpacked(stored(version), tmp_path)))
    there = [each for each in TABLES if Path(lake.path(each), "_delta_log").is_dir()]
    read_by_pyarrow = 0
    for table in there:
        expected = DeltaTable(lake.path(table)).to_pyarrow_dataset().to_table()
        found = read(Path(lake.path(table)))
        assert found.column_names == expected.column_names
        assert rows(found) == rows(expected), table.full_name
        read_by_pyarrow += expected.num_rows
    assert read_by_pyarrow > 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table whose files differ: an older one lacks a column and a field, and has INT96; one has
    a null for its partition. The folders above have names that mean something to DuckDB.
    """
    found = tmp_path / "made"
    older = pa.table(
        {
            "day": [date(2026, 11, 1), None],
            "part": pa.array([1, None], pa.int32()),
            "at": pa.array([NOON, None], TIME),
            "some": [[{"a": 1}], []],
        }
    )
    write_deltalake(found, older, partition_by=["day", "part"])
    for file in map(Path, found.rglob("*.parquet")):
        pq.write_table(
            pq.read_table(file, partitioning=None), file, use_deprecated_int96_timestamps=True
        )
    newer = pa.table(
        {
            "day": [date(2026, 11, 1)] * 2,
            "part": pa.array([2, 3], pa.int32()),
            "at": pa.array([NOON, NOON], TIME),
            "some": [[{"a": 2, "b": "x"}], []],
            "name": ["x", "y"],
        }
    )
    write_deltalake(found, newer, mode="append", schema_mode="merge")
    odd = tmp_path / "day=2020-01-01" / "dé [1]*" / "silver" / "odd"
    odd.parent.mkdir(parents=True)
    return found.rename(odd)


def test_files_that_differ(folder: Path) -> None:
    assert len([*folder.rglob("*.parquet")]) == 4
    found = read(folder)
    assert found.schema.field("at").type == TIME
    rows = found.sort_by([("day", "ascending"), ("name", "ascending")]).to_pylist()
    first = {"day": date(2026, 11, 1), "at": NOON}
    assert rows == [
        first | {"part": 2, "some": [{"a": 2, "b": "x"}], "name": "x"},
        first | {"part": 3, "some": [], "name": "y"},
        first | {"part": 1, "some": [{"a": 1, "b": None}], "name": None},
        {"day": None, "part": None, "at": None, "some": [], "name": None},
    ]


def test_a_filter_of_the_partition_passes_over_files(folder: Path) -> None:
    database = connected(Lake(root=str(folder.parent.parent)))
    query = query_of(database, DeltaTable(folder), str(folder))
    for file in folder.rglob("day=2026-11-01/*/*.parquet"):
        whole = file.read_bytes()
        file.write_bytes(whole[:4] + bytes(60) + whole[64:])
    with pytest.raises(duckdb.Error):
        database.sql(f"SELECT max(at) FROM ({query})").fetchall()
    assert database.sql(f"SELECT count(*) FROM ({query}) WHERE day IS NULL").fetchall() == [(1,)]


def test_rows_that_files_alone_do_not_show_are_refused(folder: Path) -> None:
    database = connected()
    log = folder / "_delta_log" / f"{2:020}.json"
    features = {"minReaderVersion": 3, "minWriterVersion": 7}
    features |= {each: ["deletionVectors"] for each in ("readerFeatures", "writerFeatures")}
    log.write_text(json.dumps({"protocol": features}))
    with pytest.raises(ValueError, match=r"its rows need deletionVectors of Delta's"):
        query_of(database, DeltaTable(folder), str(folder))


def test_damaged_files_are_named_by_their_table(tmp_path: Path) -> None:
    lake = Lake(root=str(unpacked(stored(LAKE_VERSION), tmp_path)))
    (file, *_) = Path(lake.path(INCIDENTS)).rglob("*.parquet")
    whole = file.read_bytes()
    ask = without_spark(lake)
    assert ask(f"SELECT * FROM {INCIDENTS.full_name}").num_rows
    for made in (None, b"PAR1", whole[:50] + bytes(200) + whole[250:]):
        file.unlink()
        if made is not None:
            file.write_bytes(made)
        for asked in (ask, without_spark(lake)):
            with pytest.raises(LakeError, match=r"^[^\n]*: gold.incidents cannot be read: "):
                asked(f"SELECT * FROM {INCIDENTS.full_name}")
        file.write_bytes(whole)
