"""Jobs that read silver refuse a lake without it, or of another version, and make nothing in it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import isr_shrink, leader_churn, rebalance_history, validate
from jobs.common.config import Config, load
from schemas import bronze, silver
from schemas.lake import Lake, LakeError, ensure_tables
from schemas.table import LAKE_VERSION, VERSION_PROPERTY

JOBS: dict[str, Callable[[SparkSession, Config], object]] = {
    "isr_shrink": isr_shrink.prepare,
    "leader_churn": leader_churn.prepare,
    "rebalance_history": rebalance_history.prepare,
    "validate": lambda spark, config: validate.apply(spark, config, datetime.now(UTC)),
}


def config_of(folder: Path) -> Config:
    file = folder / "config.yaml"
    file.write_text(f"lake: {folder}/lake\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n")
    return load(str(file))


@pytest.fixture(scope="module")
def newer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A lake that a later version has made its own."""
    config = config_of(tmp_path_factory.mktemp("newer"))
    ensure_tables(spark, config.lake, (*bronze.TABLES, *silver.TABLES))
    version = f"'{VERSION_PROPERTY}' = '{LAKE_VERSION + 1}'"
    spark.sql(f"ALTER TABLE {config.lake.identifier(silver.PARTITION_SNAPSHOTS)} SET TBLPROPERTIES ({version})")
    return config


def tables_of(lake: Lake) -> set[str]:
    return {path.parent.name for path in Path(str(lake)).glob("*/*/_delta_log")}


@pytest.mark.parametrize("job", JOBS)
def test_a_lake_without_silver_is_refused(spark: SparkSession, job: str, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(LakeError, match=r"^\S+: no such table in .*; run the job that writes it first$"):
        JOBS[job](spark, config)
    assert tables_of(config.lake) == set()


@pytest.mark.parametrize("job", JOBS)
def test_a_lake_of_another_version_is_refused(spark: SparkSession, job: str, newer: Config) -> None:
    before = tables_of(newer.lake)
    with pytest.raises(
        LakeError, match=rf"^silver\.partition_snapshots in .* has version {LAKE_VERSION + 1}, newer than .*: upgrade"
    ):
        JOBS[job](spark, newer)
    assert tables_of(newer.lake) == before
