"""The session that the command starts, and the one that spark-submit starts: their own settings,
and those that their user adds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.pipelines import command_of, environment
from tests.support.repository import ROOT

SHOW = """
import json
from kafka_metadata_history.spark import prepare
prepare("512m")
from pyspark.sql import SparkSession
print(json.dumps(dict(SparkSession.builder.getOrCreate().sparkContext.getConf().getAll())))
"""


def test_the_user_s_settings_count_more_but_for_those_that_delta_needs(tmp_path: Path) -> None:
    """As docs/spark-clusters.md says, Lakes elsewhere."""
    given = {
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
        "spark.ui.enabled": "true",
        "spark.sql.extensions": "com.example.Extension",
    }
    (tmp_path / "spark-defaults.conf").write_text(
        "".join(f"{name} {value}\n" for name, value in given.items())
    )
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"}
    }
    done = subprocess.run(
        [sys.executable, "-c", SHOW],
        env=own | {"SPARK_CONF_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["spark.delta.logStore.s3a.impl"] == "io.delta.storage.S3SingleDriverLogStore"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


SUBMITTED = """
import json, sys
from jobs import status
from jobs.configuration.config import load
from jobs.run.session import spark_session

spark = spark_session("shown", added=load(sys.argv[1]).spark)
context = dict(spark.sparkContext.getConf().getAll())
of_hadoop = spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.endpoint.region")
print(json.dumps([context, spark.conf.getAll, of_hadoop]))
sys.exit(status.main(["--config", sys.argv[1]]))
"""


def test_of_a_session_of_spark_submit_what_can_be_set_counts_and_the_rest_is_named(
    tmp_path: Path,
) -> None:
    """As docs/spark-clusters.md says, Jars and settings. Then a job lacks a class."""
    here, not_here = "io.delta:delta-storage:4.4.0", "org.apache.hadoop:hadoop-aws:3.5.0"
    settings = {
        "spark.sql.shuffle.partitions": "7",
        "spark.ui.port": "4999",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.delta.logStore.s3a.impl": "io.delta.storage.S3SingleDriverLogStore",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.driver.extraJavaOptions": "-Dof.nobody=1",
    }
    content = {
        "lake": "s3a://history/kafka",
        "clusters": {"orders": {"kafka.bootstrap.servers": "127.0.0.1:1"}},
        "spark": {"packages": {here: "", not_here: ""}, "settings": settings},
    }
    file, script = tmp_path / "config.yaml", tmp_path / "submitted.py"
    file.write_text(yaml.safe_dump(content))
    script.write_text(SUBMITTED)
    done = subprocess.run(
        command_of(str(script), str(file)),
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (done.stdout + done.stderr).splitlines()
    (shown,) = (line for line in lines if line.startswith("["))
    context, session, of_hadoop = json.loads(shown)
    assert context["spark.ui.port"] == "4999"
    assert session["spark.sql.shuffle.partitions"] == "7"
    assert of_hadoop == "eu-central-1"
    line = (
        "not in force, since Spark was started without: spark.packages, "
        "spark.settings.spark.driver.extraJavaOptions of the configuration; start spark-submit "
        f"with --packages {not_here} --conf spark.driver.extraJavaOptions=..."
    )
    assert line in lines
    assert done.returncode == 1
    lacks = "status: Spark lacks the class org.apache.hadoop.fs.s3a.S3AFileSystem; "
    assert [each for each in lines if each.startswith(lacks)], lines[-5:]
    assert not [each for each in lines if "Traceback" in each or each.startswith("\tat ")]
