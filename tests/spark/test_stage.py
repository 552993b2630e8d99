"""The stage that brings rows to folds, in Spark's workers."""

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.rounds.stage import broken_cluster, folded, packed_ddl
from schemas import silver


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
