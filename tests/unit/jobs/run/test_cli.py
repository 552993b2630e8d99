"""How a job ends that cannot begin, and errors in one line."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import AnalysisException

from jobs.run.cli import one_line, run_job
from tests.support.configurations import GOOD, config


def test_a_machine_that_is_too_busy_to_start_python_is_named_as_the_cause() -> None:
    said = one_line(
        RuntimeError("Python worker failed to connect back.\n  at org.apache.spark.api.python")
    )
    assert said == (
        "Python worker failed to connect back. The machine was too busy to start Python in "
        "Spark's time; run it again"
    )


def test_an_error_that_crossed_from_a_worker_is_one_line() -> None:
    text = (
        "[STREAM_FAILED] Query terminated:\n  PythonException: \n"
        "  metadata_source.errors.PollError: [KAFKA_METADATA_POLL] unreachable: b1:9092\n  at "
        "org.apache"
    )
    assert one_line(RuntimeError(text)) == "[KAFKA_METADATA_POLL] unreachable: b1:9092"
    assert one_line(RuntimeError("first\nsecond")) == "first"


class Java(SimpleNamespace):
    """An error of Java's, and what it came of."""

    def toString(self) -> str:  # noqa: N802 - as Java has it
        return self.text

    def getCause(self) -> object:  # noqa: N802
        return self.cause


@pytest.mark.parametrize(
    ("reason", "bottom", "said"),
    [
        (
            " Writing failed",
            "java.io.IOException: No space left",
            "Writing failed (java.io.IOException: No space left)",
        ),
        (" Write failed", "org.apache.spark.PythonException: Traceback", "Write failed"),
        ("", "java.io.EOFException", " (java.io.EOFException)"),
    ],
)
def test_what_an_error_of_java_came_of_is_in_its_line(reason: str, bottom: str, said: str) -> None:
    failed = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception:"
    error = RuntimeError(f"{failed}{reason} SQLSTATE: XXKST")
    error._origin = Java(text="above", cause=Java(text=f"{bottom}\n\tat of.Java", cause=None))  # type: ignore[attr-defined]
    assert one_line(error) == f"a stream ended: {said}"


def test_a_job_ends_with_status_1_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path, GOOD.replace("lake:", "lakes:"))

    def job(*_: object) -> None:
        raise AssertionError("nothing may start with such a file")

    assert run_job("pipeline", "Poll.", job, ["--config", str(file)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"pipeline: {file}: unknown key lakes; did you mean lake?"


OF_HIVE = "org.apache.hadoop.hive.ql.metadata."


@pytest.mark.parametrize(
    "why",
    [
        (
            "Could not connect to meta store using any of the URIs provided. Most recent failure: "
            "org.apache.thrift.transport.TTransportException: java.net.ConnectException: "
            "Connection refused\n\tat org.apache.thrift.transport.TSocket.open(TSocket.java:255)"
        ),
        f"Unable to instantiate {OF_HIVE}SessionHiveMetaStoreClient",
    ],
)
def test_a_metastore_that_is_gone_is_one_line(why: str) -> None:
    """As Spark 4.2 words it: the second time Hive leaves out why."""
    text = f"{OF_HIVE}HiveException: Unable to fetch table metadata_polls. {why}"
    refused = SimpleNamespace(
        toString=lambda: "java.net.ConnectException: Connection refused", getCause=lambda: None
    )
    error = AnalysisException(text)
    error._origin = SimpleNamespace(toString=lambda: text, getCause=lambda: refused)
    assert one_line(error) == (
        "Hive's metastore does not answer (java.net.ConnectException: Connection refused): start "
        "it, or correct spark.hadoop.hive.metastore.uris"
    )
