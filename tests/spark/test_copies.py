"""Lakes that are exported and imported: their history continues as if they had never moved."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from jobs import export, import_history
from jobs.copies.imported import undone
from jobs.rounds.commit import append_rows
from kafka_metadata_history.opened import without_spark
from schemas import bronze, gold, silver
from schemas.imports import IMPORT
from schemas.internal import STATE
from schemas.lake import Lake, LakeError
from schemas.table import LAKE_VERSION
from tests.support import upgrades
from tests.support.bronze_rows import bronze_rows
from tests.support.copies import taken, written
from tests.support.incident import answers
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import make_history, new_lake, rows_of
from tests.support.large_rounds import tables_of
from tests.support.poll_lakes import LATER, Tables, compared, copied, history_of, made, states
from tests.support.store_lake import POLLS, stored, unpacked
from tests.support.stored import newest_states
from tests.support.stored import rows_of as all_rows

OF_INCIDENT = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
    silver.TOPIC_CONFIGS,
    silver.POLL_GAPS,
    gold.STALE_BROKERS,
    *gold.ISR_TABLES,
    *gold.LEADER_TABLES,
)
"""The tables of the known incident that polls alone tell."""
OF_POLLS = (bronze.METADATA_POLLS, *OF_INCIDENT)


@pytest.fixture(scope="module")
def c0(spark: SparkSession, half: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of one of two clusters."""
    return written(spark, half, tmp_path_factory.mktemp("exports") / "c0", "c0")


@pytest.fixture(scope="module")
def c1(spark: SparkSession, half: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of the other one."""
    return written(spark, half, tmp_path_factory.mktemp("exports") / "c1", "c1")


@pytest.fixture(scope="module")
def with_c1(spark: SparkSession, c1: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake into which that one was imported, and nothing else."""
    lake = new_lake(spark, tmp_path_factory.mktemp("with_c1") / "lake")
    taken(spark, lake, c1)
    return lake


def assert_history(lake: Lake, whole: Tables) -> None:
    """As of the lake that was never moved."""
    for table, rows in whole.items():
        found = newest_states(lake) if table is STATE else all_rows(lake, table)
        found = [row for row in found if row.get("history") != IMPORT]
        assert compared(table, found) == rows, table.full_name


def test_clusters_that_were_exported_apart_are_taken_on_together(
    spark: SparkSession, with_c1: Lake, c0: Path, whole: Tables, tmp_path: Path
) -> None:
    lake = copied(with_c1, tmp_path)
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


@pytest.mark.soak
def test_an_import_is_killed_after_each_commit(
    spark: SparkSession, with_c1: Lake, c0: Path, whole: Tables, tmp_path: Path
) -> None:
    lake, kills = copied(with_c1, tmp_path), 0
    while True:
        try:
            with killed_after(kills):
                taken(spark, lake, c0)
        except KilledError:
            kills += 1
        else:
            break
    assert kills > 10
    made(spark, lake, polls_per_round=6)
    assert_history(lake, whole)


def run(job: Callable[[list[str]], int], lake: str, folder: Path, *given: str) -> int:
    """Run an entry point with a configuration of this lake."""
    config = folder / "config.yaml"
    config.write_text(
        f"lake: {lake}\ncheckpoints: {folder}/checkpoints\n"
        "clusters: {prod: {kafka.bootstrap.servers: '127.0.0.1:1'}}\n"
    )
    return job(["--config", str(config), *given])


@pytest.mark.soak
@pytest.mark.parametrize("version", [7, LAKE_VERSION])
def test_the_known_incident_is_taken_on_in_another_lake(
    spark: SparkSession,
    incident_lake: Lake,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    *,
    version: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of an older version in a lake of its own, by URIs as in an object store; one of this
    version in a lake with another cluster.
    """
    old, place = unpacked(stored(version), tmp_path / "old"), tmp_path / "copy"
    if version == LAKE_VERSION:
        lake = copied(request.getfixturevalue("with_c1"), tmp_path / "new")
        source, target, to = str(old), str(lake), str(place)
    else:
        lake = Lake(root=str(tmp_path / "new"))
        source, target, to = f"file://{old}", f"file://{lake}", f"file://{place}"
    assert run(export.main, source, tmp_path, "--to", to) == 0
    assert f"tables of a lake of version {version}, with prod" in capsys.readouterr().err
    manifest = json.loads((place / "manifest.json").read_text())
    assert (manifest["lake_version"], manifest["clusters"]) == (version, {"prod": ["id-prod"]})
    there = {".".join(log.parent.parts[-2:]) for log in old.glob("*/*/_delta_log")}
    assert {*manifest["tables"]} == there
    for name, told in manifest["tables"].items():
        if told["rows"]:
            plain = ds.dataset(place / name)
            assert (plain.count_rows(), plain.schema.names) == (
                told["rows"],
                list(told["columns"]),
            )
    assert run(export.main, source, tmp_path, "--to", to) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"export: --to {to}: something is there; nothing was written"
    ]
    assert run(import_history.main, target, tmp_path, "--from", to) == 0
    assert not [*tmp_path.glob("checkpoints/import-*")], "the lake of the older version is left"
    rows = bronze_rows("prod", answers())
    append_rows(spark, lake, bronze.METADATA_POLLS, [row for row in rows if row["n"] >= POLLS])
    make_history(spark, lake)
    if version == LAKE_VERSION:
        for table in OF_INCIDENT:
            found = [row for row in rows_of(lake, table) if '"cluster": "prod"' in row]
            assert found == rows_of(incident_lake, table), table.full_name
        return
    # Before version 8 an answer beside metadata had the time of its poll, as bronze still says.
    whole = tables_of(all_rows(lake, bronze.METADATA_POLLS))
    for table in (*silver.TABLES, *gold.TABLES):
        found = upgrades.compared(table, all_rows(lake, table))
        assert found == upgrades.compared(table, whole[table]), table.full_name
    assert whole[gold.BROKER_INCIDENTS]


# --- refused ---


def test_an_export_that_lies_is_refused_before_anything_is_written(
    spark: SparkSession, c0: Path, tmp_path: Path
) -> None:
    place, lake = tmp_path / "copy", Lake(root=str(tmp_path / "lake"))
    shutil.copytree(c0, place)
    file = next((place / "gold.leader_changes").glob("*.parquet"))
    was, manifest = file.read_bytes(), place / "manifest.json"
    of_file = f"gold.leader_changes/{file.name}"

    def says(text: str) -> None:
        with pytest.raises(LakeError) as caught:
            taken(spark, lake, place)
        assert text in str(caught.value)
        assert "nothing was written" in str(caught.value)
        assert not (tmp_path / "lake").exists()

    file.write_bytes(was[:-1])
    says("a file has other bytes than were written")
    for beside in place.rglob(".*.crc"):  # Hadoop's, which other ways of copying leave behind
        beside.unlink()
    says(f"{of_file} has {len(was) - 1} bytes, not {len(was)}")
    file.write_bytes(was[:-5] + bytes([was[-5] ^ 1]) + was[-4:])
    says(f"{of_file} has another checksum than the manifest says")
    file.rename(place / "part-0.parquet")
    says(f"{of_file} is not there")
    (place / "part-0.parquet").rename(file)
    file.write_bytes(was)
    told = json.loads(manifest.read_text())
    told["tables"]["gold.leader_changes"]["rows"] += 1
    manifest.write_text(json.dumps(told))
    says(f"gold.leader_changes has {told['tables']['gold.leader_changes']['rows'] - 1} rows, not ")
    told["tables"]["gold.leader_changes"]["rows"] -= 1
    told["tables"]["gold.leader_changes"]["columns"]["why"] = {
        "name": "why",
        "type": "string",
        "comment": "",
    }
    manifest.write_text(json.dumps(told))
    says("gold.leader_changes has other columns than the manifest says: why")
    del told["tables"]["gold.leader_changes"]["columns"]["why"]
    told["clusters"] = {"c7": ["id-c7"]}
    manifest.write_text(json.dumps(told))
    says("there are rows of c0, and the manifest says c7")
    manifest.unlink()
    says("no manifest.json is there")


def test_what_cannot_be_exported_is_one_line(
    spark: SparkSession, half: Lake, tmp_path: Path
) -> None:
    with pytest.raises(LakeError, match=r"--cluster c7: .* has c0, c1; nothing was written"):
        written(spark, half, tmp_path / "none", "c7")
    assert not (tmp_path / "none").exists()
    with pytest.raises(LakeError, match="no lake there"):
        written(spark, Lake(root=str(tmp_path / "no lake")), tmp_path / "none")


def test_an_import_that_has_not_ended_is_in_no_export_and_can_be_taken_back(
    spark: SparkSession,
    with_c1: Lake,
    c0: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = copied(with_c1, tmp_path / "lake")
    with killed_after(6), pytest.raises(KilledError):
        taken(spark, lake, c0)
    with pytest.raises(LakeError, match="the import of c0 has not ended"):
        written(spark, lake, tmp_path / "none")
    assert run(import_history.main, str(lake), tmp_path, "--undo") == 0
    assert capsys.readouterr().err.splitlines() == [f"{lake}: the import of c0 is taken back"]
    for table in OF_POLLS:
        assert rows_of(lake, table) == rows_of(with_c1, table), table.full_name
    assert {*states(lake)} == {"c1"}
    assert len(without_spark(lake)("SELECT DISTINCT cluster FROM bronze.metadata_polls")) == 1
    made(spark, lake)
    with pytest.raises(LakeError, match="each import has ended; nothing was written"):
        [*undone(spark, lake)]


def test_a_round_that_is_not_done_is_in_no_export(
    spark: SparkSession, half: Lake, whole: Tables, tmp_path: Path
) -> None:
    source = copied(half, tmp_path / "source")
    with killed_after(3), pytest.raises(KilledError):
        history_of(spark, source, polls_per_round=6).round(LATER)
    place = written(spark, source, tmp_path / "copy")
    lake = new_lake(spark, tmp_path / "lake")
    taken(spark, lake, place)
    made(spark, lake, polls_per_round=6)
    assert_history(lake, whole)
