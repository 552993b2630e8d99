"""A driver with little memory, as spark-submit starts it."""

import subprocess
import sys
from pathlib import Path

from tests.support.pipelines import ROOT, environment

LITTLE = "600m"
START = "from pyspark.sql import SparkSession; spark = SparkSession.builder.master('local[2]').getOrCreate()\n"
MANY_ROWS = """
import pyarrow as pa
from jobs.common.stage import frame_of
rows = pa.table({"text": ["x" * 1000] * 200_000})
assert frame_of(spark, rows).where("length(text) = 1000").count() == 200_000
"""
TOO_MUCH = """
import threading
allocate = lambda: spark.sparkContext._gateway.new_array(spark._jvm.long, 2**28)
threading.Thread(target=allocate).start()
threading.Event().wait(60)
"""


def submitted(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(START + script)
    submit = [f"{Path(sys.executable).parent}/spark-submit", "--properties-file", "conf/spark-defaults.conf"]
    command = [*submit, "--driver-memory", LITTLE, str(folder / "script.py")]
    return subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )


def test_many_rows_are_not_sent_in_a_task(tmp_path: Path) -> None:
    done = submitted(MANY_ROWS, tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_driver_without_memory_exits(tmp_path: Path) -> None:
    done = submitted(TOO_MUCH, tmp_path)
    assert done.returncode == 3, done.stderr
    assert "OutOfMemoryError" in done.stdout + done.stderr
