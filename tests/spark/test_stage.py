"""The stage that brings rows to folds, in Spark's workers."""

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.rounds.stage import arrow_schema, broken_cluster, ddl, folded, packed_ddl
from schemas import silver
from schemas.lake import TABLES


def fails_for_b(name: str, *_: Any) -> dict[str, Any]:
    if name == "b/1":
        raise KeyError("leader_epoch")
    return {}


def test_the_cluster_whose_fold_fails_is_named(spark: SparkSession) -> None:
    columns = f"cluster string, {packed_ddl(silver.POLL_GAPS)}"
    news = spark.createDataFrame([(name, None) for name in ("a/0", "b/1")], columns)
    with pytest.raises((PySparkException, Py4JJavaError)) as error:
        folded(news, spark.createDataFrame([], columns), [silver.POLL_GAPS], fails_for_b)
    cluster, why = broken_cluster(error.value) or ("", "")
    assert cluster == "b"
    assert why.startswith("KeyError: 'leader_epoch' (fails_for_b, line ")


def test_arrow_has_the_types_that_spark_has(spark: SparkSession) -> None:
    for table in TABLES:
        columns = StructType.fromDDL(ddl(table))
        assert arrow_schema(table) == to_arrow_schema(columns, timezone="UTC"), table.full_name
