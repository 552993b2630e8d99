"""A driver with little memory, as spark-submit starts it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.pipelines import environment
from tests.support.repository import ROOT

LITTLE = "600m"
START = (
    "from pyspark.sql import SparkSession; spark = "
    "SparkSession.builder.master('local[2]').getOrCreate()\n"
)
MANY_ROWS = """
import pyarrow as pa
from jobs.rounds.stage import frame_of
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
    submit = [
        f"{Path(sys.executable).parent}/spark-submit",
        "--properties-file",
        "conf/spark-defaults.conf",
    ]
    command = [*submit, "--driver-memory", LITTLE, str(folder / "script.py")]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.soak
def test_a_driver_takes_many_rows_and_exits_without_memory(tmp_path: Path) -> None:
    """Many rows are not sent in a task: it would have no memory for them."""
    done = submitted(MANY_ROWS + "print('taken', flush=True)\n" + TOO_MUCH, tmp_path)
    assert "taken" in done.stdout, done.stderr
    assert done.returncode == 3, done.stderr
    assert "OutOfMemoryError" in done.stdout + done.stderr
