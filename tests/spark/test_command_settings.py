"""The session that the command starts: its own settings, and those that its user adds."""

import json
import os
import subprocess
import sys
from pathlib import Path

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
