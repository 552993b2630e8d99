"""Jobs refuse a lake of another version, validation also one without silver, and make nothing in
it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import rebalance_history, validate
from jobs.configuration.config import Config, load
from schemas import bronze, silver, transactions
from schemas.lake import Lake, LakeError
from schemas.table import LAKE_VERSION, VERSION_PROPERTY
from tests.support.lakes import new_lake

JOBS: dict[str, Callable[[SparkSession, Config], object]] = {
    "rebalance_history": lambda spark, config: rebalance_history.run(spark, config, True),
    "validate": lambda spark, config: validate.apply(spark, config, datetime.now(UTC)),
}


def config_of(folder: Path) -> Config:
    file = folder / "config.yaml"
    file.write_text(
        f"lake: {folder}/lake\nclusters: {{prod: {{kafka.bootstrap.servers: '127.0.0.1:1'}}}}\n"
    )
    return load(str(file))


@pytest.fixture(scope="module")
def with_silver(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Config:
    config = config_of(tmp_path_factory.mktemp("with_silver"))
    new_lake(spark, Path(str(config.lake)), (*bronze.TABLES, *transactions.TABLES, *silver.TABLES))
    return config


def tables_of(lake: Lake) -> set[str]:
    return {path.parent.name for path in Path(str(lake)).glob("*/*/_delta_log")}


def test_a_lake_without_silver_is_not_validated(spark: SparkSession, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    with pytest.raises(
        LakeError, match=r"^\S+: no such table in .*; `kafka-metadata-history run` makes it$"
    ):
        JOBS["validate"](spark, config)
    assert tables_of(config.lake) == set()


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("version", "told"),
    [
        (
            LAKE_VERSION - 1,
            "older than .*: `kafka-metadata-history upgrade` makes it one of this version$",
        ),
        (LAKE_VERSION + 1, "newer than .*: upgrade the program$"),
    ],
    ids=["older", "newer"],
)
def test_a_lake_of_another_version_is_refused(
    spark: SparkSession, job: str, version: int, told: str, with_silver: Config
) -> None:
    lake = with_silver.lake
    table = lake.identifier(silver.PARTITION_SNAPSHOTS)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{version}')")
    before = tables_of(lake)
    with pytest.raises(
        LakeError, match=rf"^silver\.partition_snapshots in .* has version {version}, {told}"
    ):
        JOBS[job](spark, with_silver)
    assert tables_of(lake) == before
