"""A lake that an older commit made, in the middle of an incident, is taken on by this one; one of
an older version is read, and not written.
"""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import query
from jobs.rounds.commit import append_rows
from schemas import bronze, gold, internal, silver
from schemas.in_spark import ensure_tables
from schemas.lake import Lake, LakeError
from schemas.table import LAKE_VERSION
from tests.support.bronze_rows import bronze_rows
from tests.support.incident import answers
from tests.support.lakes import make_history, rows_of
from tests.support.store_lake import FOLDER, POLLS, stored, unpacked

COMPARED = (
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
OLDER = sorted(path.name for path in FOLDER.glob("lake-*.tar.xz") if path != stored(LAKE_VERSION))


def test_the_history_of_a_stored_lake_is_taken_on(
    spark: SparkSession, incident_lake: Lake, tmp_path: Path
) -> None:
    file = stored(LAKE_VERSION)
    assert file.exists(), "run `python -m tests.support.store_lake`, once for this LAKE_VERSION"
    lake = Lake(root=str(unpacked(file, tmp_path)))
    before = {table: rows_of(lake, table) for table in COMPARED}
    rows = bronze_rows("prod", answers())
    append_rows(spark, lake, bronze.METADATA_POLLS, [row for row in rows if row["n"] >= POLLS])
    make_history(spark, lake)
    for table in COMPARED:
        assert rows_of(lake, table) == rows_of(incident_lake, table), table.full_name
    assert before[gold.BROKER_INCIDENTS] != rows_of(lake, gold.BROKER_INCIDENTS)
    rounds = lake.read(spark, internal.ROUNDS).where("step = 'planned'").count()
    assert rounds > 1, "history was made afresh, not taken on"


@pytest.mark.parametrize("name", OLDER)
def test_a_stored_lake_of_an_older_version_is_read_and_not_written(
    spark: SparkSession, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(root=str(unpacked(FOLDER / name, tmp_path)))
    config = tmp_path / "config.yaml"
    config.write_text(
        f"lake: {lake.root}\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    sql = "SELECT count(leader) AS n FROM silver.partition_snapshots"
    assert query.main([sql, "--config", str(config), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 13}
    with pytest.raises(
        LakeError, match=rf"has version \d+, older than this program's {LAKE_VERSION} "
    ):
        ensure_tables(spark, lake, silver.TABLES)
