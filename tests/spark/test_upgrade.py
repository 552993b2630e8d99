"""Stored lakes of older versions become lakes of this version. History continues there as this
program makes it of the same bronze; what was broken off comes to its end; seven days long an undo
gives back what there was.
"""

import json
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import upgrade as job
from jobs.rounds.commit import append_rows
from jobs.rounds.plan import OvertakenError, Rounds
from jobs.run.driver import delta_version
from jobs.upkeep import changing
from jobs.upkeep import upgrade as upgrades
from jobs.upkeep.undo import close_upgrade, undo
from jobs.upkeep.upgrade import is_older, planned, upgrade
from kafka_metadata_history.opened import without_spark
from schemas import bronze, gold, silver
from schemas.in_spark import ensure_lake, ensure_tables, properties
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, UPGRADE_PROPERTY, Lake, LakeError
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED
from schemas.upgrades.changes import BEFORE_PROPERTY
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.disks import full_after, small_disk
from tests.support.incident import answers
from tests.support.lakes import make_history
from tests.support.large_rounds import tables_of
from tests.support.store_lake import FOLDER, POLLS
from tests.support.upgrades import as_it_lies, broken_off_after, compared, names_in, of_version

COMPARED = (*silver.TABLES, *gold.TABLES)
POINTS = (0, 1, 3)
"""An upgrade is broken off after so many commits, one after the other."""


def append_rest(spark: SparkSession, lake: Lake) -> None:
    rows = bronze_rows("prod", answers())
    append_rows(spark, lake, bronze.METADATA_POLLS, [row for row in rows if row["n"] >= POLLS])


def assert_whole_history(lake: Lake) -> None:
    """The history is what the rules make of all of bronze."""
    whole = tables_of(stored.rows_of(lake, bronze.METADATA_POLLS))
    for table in COMPARED:
        found = compared(table, stored.rows_of(lake, table))
        assert found == compared(table, whole[table]), table.full_name
    assert whole[gold.BROKER_INCIDENTS]


def copied(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(str(lake), folder / "lake")
    return Lake(root=str(folder / "lake"))


@pytest.fixture(scope="module")
def seven(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return of_version(OLDEST_UPGRADED, tmp_path_factory.mktemp("seven"))


@pytest.fixture(scope="module")
def refused() -> list[str]:
    """The errors of readers of a lake that is half upgraded."""
    return []


@pytest.fixture(scope="module")
def upgraded(
    spark: SparkSession, seven: Lake, refused: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """A lake of version 7, upgraded; that was broken off several times."""
    lake = copied(seven, tmp_path_factory.mktemp("upgraded"))
    older = Rounds(spark, lake, ["silver", "isr_shrink", "leader_churn"])
    older.plan({"at": "of an older version"}, datetime.now(UTC))
    for commits in POINTS:
        with broken_off_after(commits), pytest.raises(LakeError, match="run it again: it comes"):
            list(upgrade(spark, lake))
    for read in (
        lambda: without_spark(lake)("SELECT * FROM silver.poll_gaps"),
        lambda: ensure_tables(spark, lake, TABLES),
    ):
        with pytest.raises(LakeError) as error:
            read()
        refused.append(str(error.value))
    with pytest.raises(OvertakenError, match=r"this one ends$"):
        older.plan({}, datetime.now(UTC))
    list(upgrade(spark, lake))
    return lake


@pytest.fixture(scope="module")
def undone(spark: SparkSession, upgraded: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same, with polls and their history since, taken back."""
    lake = copied(upgraded, tmp_path_factory.mktemp("undone"))
    append_rest(spark, lake)
    make_history(spark, lake)
    list(undo(spark, lake, datetime.now(UTC)))
    return lake


def test_a_half_upgraded_lake_is_refused_in_one_line(upgraded: Lake, refused: list[str]) -> None:
    assert upgraded
    query, run = refused
    assert "is half upgraded from version 7, since " in query
    assert query.endswith("run `kafka-metadata-history upgrade` to its end")
    assert run.endswith("`kafka-metadata-history upgrade` makes it one of this version")
    assert "\n" not in query + run


def test_the_tables_are_those_of_a_new_lake(
    spark: SparkSession, upgraded: Lake, tmp_path: Path
) -> None:
    new = of_version(LAKE_VERSION, tmp_path)
    of_upgrade = {"delta.logRetentionDuration", "delta.deletedFileRetentionDuration"}
    of_upgrade |= {BEFORE_PROPERTY, UPGRADE_PROPERTY}
    assert names_in(upgraded) == names_in(new)
    for table in TABLES:
        found, wanted = (
            delta_version(spark, lake.identifier(table)).metadata for lake in (upgraded, new)
        )
        assert json.loads(found["schemaString"]) == json.loads(wanted["schemaString"])
        assert found["partitionColumns"] == wanted["partitionColumns"]
        assert found["description"] == wanted["description"]
        left, right = (
            {name: value for name, value in each["configuration"].items() if name not in of_upgrade}
            for each in (found, wanted)
        )
        assert left == right, table.full_name
    ensure_lake(spark, upgraded)
    assert planned(spark, upgraded) == []


def test_history_continues(spark: SparkSession, upgraded: Lake, tmp_path: Path) -> None:
    lake = copied(upgraded, tmp_path)
    append_rest(spark, lake)
    make_history(spark, lake)
    assert_whole_history(lake)
    rows = lake.read(spark, ROUNDS).where("step = 'planned' AND takes IS NOT NULL")
    assert rows.count() > 1, "history was made afresh, not taken on"


def test_an_undo_gives_back_what_there_was(seven: Lake, undone: Lake) -> None:
    before, after = as_it_lies(seven), as_it_lies(undone)
    # Marks are people's own words, and bronze is what was seen.
    assert after.keys() - before.keys() == {"gold.marks", "bronze.transaction_log"}
    assert before.keys() <= after.keys()
    kept = {"bronze.metadata_polls", "internal.rounds", "internal.states"}
    for name in before.keys() - kept:
        assert after[name] == before[name], name
    assert set(before["bronze.metadata_polls"]) < set(after["bronze.metadata_polls"])
    assert [row for row in before["internal.states"] if '"history": "lake"' not in row] == after[
        "internal.states"
    ]


def test_an_undone_lake_is_upgraded_again(
    spark: SparkSession, undone: Lake, tmp_path: Path
) -> None:
    lake = copied(undone, tmp_path)
    assert UPGRADE_PROPERTY not in properties(spark, lake.identifier(STATE))
    list(upgrade(spark, lake))
    make_history(spark, lake)
    assert_whole_history(lake)


def test_seven_days_later_nothing_of_the_older_lake_is_kept(
    spark: SparkSession, upgraded: Lake, tmp_path: Path
) -> None:
    lake = copied(upgraded, tmp_path)
    later = datetime.now(UTC) + timedelta(days=7, minutes=1)
    close_upgrade(spark, lake, datetime.now(UTC))
    assert Path(str(lake), "gold", "rebalances_told").exists()
    with pytest.raises(LakeError, match=r"more than seven days ago: .*; nothing was written$"):
        list(undo(spark, lake, later))
    close_upgrade(spark, lake, later)
    assert not Path(str(lake), "gold", "rebalances_told").exists()
    for table in (bronze.METADATA_POLLS, gold.ISR_CHANGES, STATE):
        assert table.properties.items() <= properties(spark, lake.identifier(table)).items()
        assert BEFORE_PROPERTY not in properties(spark, lake.identifier(table))
    with pytest.raises(LakeError, match="there is no upgrade to take back: "):
        list(undo(spark, lake, later))


@pytest.mark.parametrize(
    "version",
    [
        *(
            pytest.param(version, marks=pytest.mark.soak)
            for version in range(OLDEST_UPGRADED + 1, LAKE_VERSION - 1)
        ),
        LAKE_VERSION - 1,
    ],
)
def test_a_lake_of_a_version_between_is_upgraded(
    spark: SparkSession, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = of_version(version, tmp_path, is_fresh=False)
    check = upgrades._check_unwritten

    def written(*args: Any) -> None:
        # As an older program does that still runs.
        spark.sql(f"UPDATE {lake.identifier(gold.ISR_CHANGES)} SET topic = topic")
        check(*args)

    if version == LAKE_VERSION - 1:
        # Nothing that an undo needs is as old as the rest of the lake.
        monkeypatch.setattr(upgrades, "_check_unwritten", written)
        with pytest.raises(LakeError, match=r"another program wrote gold.isr_changes meanwhile: "):
            list(upgrade(spark, lake))
        monkeypatch.undo()
        version_before = properties(spark, lake.identifier(silver.TOPIC_CONFIGS))[BEFORE_PROPERTY]
        log = Path(lake.path(silver.TOPIC_CONFIGS), "_delta_log", f"{int(version_before):020}.json")
        assert datetime.now(UTC).timestamp() - log.stat().st_mtime < 3600
        assert f"{lake}: version {version} -> {LAKE_VERSION}, in about" in planned(spark, lake)[-1]
    list(upgrade(spark, lake))
    append_rest(spark, lake)
    make_history(spark, lake)
    assert_whole_history(lake)


def test_the_job_upgrades_the_lake_of_a_configuration(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Since version 10 polls are in a new stream.
    lake = of_version(9, tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    checkpoint = Path(str(lake), "checkpoints", "poll_metadata")
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text("of version 9")
    arguments, before = ["--config", str(config)], as_it_lies(lake)
    assert job.main([*arguments, "--undo"]) == 1
    assert "there is no upgrade to take back: " in capsys.readouterr().err
    assert job.main([*arguments, "--dry-run"]) == 0
    assert as_it_lies(lake) == before
    said = capsys.readouterr().out
    assert f"{lake}: version 9 -> {LAKE_VERSION}, in about" in said
    assert checkpoint.exists()
    assert job.main(arguments) == 0
    *_, done, stream = capsys.readouterr().out.splitlines()
    assert done.startswith(f"{lake}: version {LAKE_VERSION} now, after ")
    (older,) = checkpoint.parent.glob("poll_metadata-until-*")
    assert stream == f"{checkpoint} is {older} now: polls begin a new stream"
    assert (older / "metadata").read_text() == "of version 9"
    assert not checkpoint.exists()
    assert is_older(spark, lake) is False
    checkpoint.mkdir()
    assert job.main(arguments) == 0
    said = capsys.readouterr().out
    assert said == f"{lake}: of this program's version, nothing to do\n"
    assert checkpoint.exists()
    assert job.main([*arguments, "--undo"]) == 0
    assert capsys.readouterr().out.endswith("now: polls begin a new stream\n")
    assert not checkpoint.exists()
    assert len([*checkpoint.parent.glob("poll_metadata-until-*")]) == 2


@pytest.mark.soak
def test_a_lake_in_a_catalog_is_upgraded_and_taken_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, lake = of_version(LAKE_VERSION - 1, tmp_path), Lake(catalog="spark_catalog")
    for log in sorted(Path(str(root)).glob("*/*/_delta_log")):
        schema, name = log.parent.parent.name, log.parent.name
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS spark_catalog.{schema}")
        spark.sql(f"CREATE TABLE spark_catalog.{schema}.{name} USING DELTA LOCATION '{log.parent}'")
    try:
        list(upgrade(spark, lake))
        ensure_tables(spark, lake, TABLES)
        append_rest(spark, lake)
        make_history(spark, lake)
        assert lake.read(spark, gold.BROKER_INCIDENTS).count() == 2
        list(undo(spark, lake, datetime.now(UTC)))
        assert is_older(spark, lake)
        assert not spark.catalog.tableExists("spark_catalog.internal.rebalances")
    finally:
        for schema in {table.schema for table in TABLES}:
            spark.sql(f"DROP SCHEMA IF EXISTS spark_catalog.{schema} CASCADE")


@pytest.mark.parametrize("version", range(4, OLDEST_UPGRADED))
def test_a_lake_that_no_step_begins_with_is_refused(
    spark: SparkSession, version: int, tmp_path: Path
) -> None:
    assert (FOLDER / f"lake-{version}.tar.xz").exists()
    lake = of_version(version, tmp_path)
    before = as_it_lies(lake)
    with pytest.raises(
        LakeError, match=rf"has version {version}: there is no way to upgrade it, .* read it$"
    ):
        list(upgrade(spark, lake))
    assert as_it_lies(lake) == before


@pytest.mark.soak
def test_each_commit_may_be_the_last(spark: SparkSession, seven: Lake, tmp_path: Path) -> None:
    lake = copied(seven, tmp_path)
    while planned(spark, lake):
        # A table with another name takes two.
        with broken_off_after(2), suppress(LakeError):
            list(upgrade(spark, lake))
    append_rest(spark, lake)
    make_history(spark, lake)
    assert_whole_history(lake)


@pytest.mark.soak
def test_a_disk_that_is_full_in_the_middle_costs_nothing_but_time(
    spark: SparkSession, seven: Lake, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        lake = copied(seven, disk)
        with (
            full_after(disk, 5, changing, "change_delta"),
            pytest.raises(LakeError, match=r"No space left on device.*: make room, and run it"),
        ):
            list(upgrade(spark, lake))
        assert is_older(spark, lake)
        list(upgrade(spark, lake))
        append_rest(spark, lake)
        make_history(spark, lake)
        assert_whole_history(lake)
