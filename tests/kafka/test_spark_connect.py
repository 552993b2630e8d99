"""The source `kafka_metadata` over Spark Connect."""

import os
import subprocess
import sys

import pytest

from tests.support.repository import ROOT
from tests.support.worker import SMALL_JVM, worker_python

TOPIC = "spark-connect-test"


@pytest.mark.soak
def test_over_spark_connect(cluster, made_topic, tmp_path):
    """A session of its own process: classic and Connect sessions do not go together in one."""
    script = f"""
import metadata_source
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").getOrCreate()
metadata_source.register(spark)
options = {{"kafka.bootstrap.servers": {cluster.bootstrap_servers!r}, "topics": {TOPIC!r}}}
(topic,) = spark.read.format("kafka_metadata").options(entity="topics", **options).load().collect()
assert topic.partition_count == 2, topic
stream = spark.readStream.format("kafka_metadata").options(**options).load()
writer = stream.writeStream.format("parquet").option("checkpointLocation", "{tmp_path}/checkpoint")
assert writer.trigger(availableNow=True).start("{tmp_path}/rows").awaitTermination(90)
rows = spark.read.parquet("{tmp_path}/rows").collect()
assert sorted(row.record for row in rows) == ["poll", "topic"], rows
print("connected")
spark.stop()
"""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_"))
    }
    # As if it were installed on the server: classes go there by name.
    environment |= {
        "PYSPARK_PYTHON": worker_python(),
        "PYTHONPATH": str(ROOT),
        "JDK_JAVA_OPTIONS": SMALL_JVM,
    }
    with made_topic(cluster.bootstrap_servers, TOPIC, 2, replication_factor=3):
        done = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=180,
            cwd=ROOT,
            env=environment,
            check=False,
        )
    assert done.stdout.endswith("connected\n"), done.stderr[:3000]
