"""What the jobs ask of Spark: of Spark Connect nothing that it lacks
(tests/kafka/test_spark_cluster.py runs them).
"""

import ast
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkRuntimeError

from jobs.run import driver
from jobs.run.session import COMPILED_FROM, session_for, setting
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.jars.delta import DELTA, MODULES
from kafka_metadata_history.spark import settings
from tests.support.repository import ROOT
from truth.session import settings_of

PRODUCT = [
    file
    for room in ("jobs", "schemas", "metadata_source", "notebooks")
    for file in (ROOT / room).rglob("*.py")
]
OF_THE_JVM = {
    "_jvm",
    "_jsc",
    "_jdf",
    "_jsparkSession",
    "_sc",
    "sparkContext",
    "SparkContext",
    "newSession",
    "rdd",
    "py4j",
    *("DeltaTable", "persist"),  # want a plugin of the server, and what serverless runtimes refuse
}
"""Names that a session of Spark Connect does not have everywhere."""


def names_in(file: Path) -> set[str]:
    """The attributes that a file asks for, what it imports, and texts that may name an attribute
    (`hasattr`).
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            module = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found.update(
                part
                for name in (*module, *(each.name for each in node.names))
                for part in name.split(".")
            )
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.isidentifier()
        ):
            found.add(node.value)
    return found


def test_one_module_of_the_jobs_reaches_for_the_jvm() -> None:
    asking = {file.relative_to(ROOT).as_posix(): names_in(file) & OF_THE_JVM for file in PRODUCT}
    asking = {file: names for file, names in asking.items() if names}
    # A name of a logger is no import.
    assert asking.pop("jobs/run/cli.py") == asking.pop("jobs/validate.py") == {"py4j"}
    # delta-rs has a class of the same name as Spark's plugin.
    for name in ("in_duckdb", "open_tables", "store_files", "delta_in_duckdb"):
        assert asking.pop(f"schemas/{name}.py") == {"DeltaTable"}
    of_the_session = {"_jvm", "_jsc", "_jsparkSession", "_jdf", "sparkContext", "newSession"}
    assert asking == {"jobs/run/driver.py": {*of_the_session, "py4j", "DeltaTable"}}


IMPORTED = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from tests.support.only_connect import Missing
sys.meta_path.insert(0, Missing())
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
from pyspark.errors.exceptions.connect import EXCEPTION_CLASS_MAPPING as known
from jobs.run import driver
from jobs.rounds.commit import CONFLICTS
assert driver.JAVA_ERRORS == ()
driver.know_conflicts(object())
for each in CONFLICTS:
    assert issubclass(known[f"io.delta.exceptions.{each.__name__}"], each), each
assert not {"py4j", "pyspark.core"}.intersection(sys.modules)
driver.end_with_process(object())
try:
    os.kill(os.getpid(), signal.SIGTERM)
finally:
    print("tidied up")
"""


def test_all_is_imported_without_py4j_and_ends_tidily() -> None:
    modules = [
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for room in ("jobs", "schemas", "metadata_source")
        for file in (ROOT / room).rglob("*.py")
        if file.stem not in {"__init__", "__main__"}
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-c", IMPORTED, *modules]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, "tidied up\n"), done.stderr


class Remote:
    """A session of Spark Connect, of a runtime that keeps its settings to itself."""

    class conf:  # noqa: N801 - as Spark has it
        @staticmethod
        def get(name: str, _: str | None) -> str:
            raise PySparkRuntimeError(f"[CONFIG_NOT_AVAILABLE] {name}")


def test_what_is_lost_is_done_without() -> None:
    remote: Any = Remote()
    assert not driver.has_jvm(remote)
    assert driver.session_beside(remote, {}) is remote
    assert driver.forget_planned(remote, "folder") is False
    driver.take_pool(remote, "polls")
    driver.clean_log(remote, "table")
    before = signal.getsignal(signal.SIGTERM)
    classic: Any = type("Classic", (), {"_jvm": object()})()
    driver.end_with_process(classic)
    assert signal.getsignal(signal.SIGTERM) is before
    assert "\n" not in driver.LOST


def test_another_delta_than_the_open_one_is_left_to_clean_its_logs() -> None:
    session = Mock()
    log = session._jvm.io.delta.tables.DeltaTable.forName().deltaLog
    log.side_effect = Py4JError("Method deltaLog([]) does not exist")
    driver.clean_log(session, "table")
    log.side_effect = Py4JJavaError("the log cannot be read", Mock(_target_id="o1"))
    with pytest.raises(Py4JJavaError):
        driver.clean_log(session, "table")


def test_a_folder_that_spark_may_not_list_has_no_size_and_stops_nobody() -> None:
    session = Mock()
    length = session._jvm.org.apache.hadoop.fs.Path().getFileSystem().getContentSummary().getLength
    length.return_value = 7
    assert driver.folder_bytes(session, "s3://bucket/table/_delta_log") == 7
    length.side_effect = Py4JJavaError("no AWS credentials", Mock(_target_id="o1"))
    assert driver.folder_bytes(session, "s3://bucket/table/_delta_log") is None


def test_settings_that_are_not_told_are_unset() -> None:
    remote: Any = Remote()
    assert setting(remote, "spark.master") is None
    assert session_for(remote, COMPILED_FROM) is remote


@pytest.mark.parametrize(
    ("sql", "bound"),
    [
        ("x >= :since", "x >= CAST(X'32303236' AS STRING)"),
        ("f(:since,:broker)", "f(CAST(X'32303236' AS STRING),3)"),
        (":topic IS NULL OR t = :topic", "NULL IS NULL OR t = NULL"),
        ("':since' || \":since\" || `:since`", None),
        ("'it\\'s :since' || 'it''s :since'", None),
        ("r'\\' || :broker", "r'\\' || 3"),
        ("1 -- :since\n /* :since\n :since */", None),
        ("a::broker, a.b[:broker]", "a::broker, a.b[3]"),
        ("v:broker", None),
        (":unknown", None),
    ],
)
def test_values_take_the_place_of_markers_alone(sql: str, bound: str | None) -> None:
    assert with_values(sql, {"since": "2026", "broker": 3, "topic": None}) == (bound or sql)


def test_no_value_ends_its_literal() -> None:
    hostile = "x' OR 1 = 1 -- \\'"
    (literal,) = re.findall(r"X'([0-9a-f]*)'", with_values(":t", {"t": hostile}))
    assert bytes.fromhex(literal).decode() == hostile


def test_settings_of_a_cluster() -> None:
    """They bring the Delta that was tried, and turn on what is off on one machine."""
    of_cluster, of_machine = settings_of("spark-cluster.conf"), settings_of("spark-defaults.conf")
    main = MODULES[0]
    assert of_cluster["spark.jars.packages"] == ":".join(main)
    assert main[2] == DELTA
    assert "extraClassPath" not in "".join(of_cluster)
    on = ("spark.sql.adaptive.enabled", "spark.sql.codegen.wholeStage")
    assert [of_cluster[name] for name in on] == ["true", "true"]
    assert [of_machine[name] for name in on] == ["false", "false"]
    assert of_cluster["spark.sql.codegen.factoryMode"] == "FALLBACK"
    archive, _, folder = of_cluster["spark.archives"].partition("#")
    assert archive.endswith(".tar.gz")
    assert of_cluster["spark.pyspark.python"] == f"{folder}/bin/python"
    alike = (
        "spark.sql.extensions",
        "spark.sql.catalog.spark_catalog",
        "spark.sql.session.timeZone",
        "spark.sql.parquet.outputTimestampType",
    )
    for name in (
        *alike,
        "spark.sql.legacy.parameterSubstitution.constantsOnly",
        "spark.scheduler.mode",
    ):
        assert of_cluster[name] == of_machine[name]


def test_nobody_else_reaches_sparks_ports() -> None:
    for of_machine in (settings_of("spark-defaults.conf"), settings()):
        assert (
            of_machine["spark.driver.host"] == of_machine["spark.driver.bindAddress"] == "127.0.0.1"
        )
    of_cluster = settings_of("spark-cluster.conf")
    assert of_cluster["spark.authenticate"] == of_cluster["spark.network.crypto.enabled"] == "true"
    # CVE-2025-55039: the one that Spark takes unless told lets bytes be changed on the way.
    assert of_cluster["spark.network.crypto.cipher"] == "AES/GCM/NoPadding"


def test_a_command_may_open_as_many_files_as_its_user() -> None:
    script = """
import resource
from kafka_metadata_history import spark

spark._open_as_many_files_as_may_be()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = ["bash", "-c", f"ulimit -Sn 256 && exec {sys.executable} -c '{script}'"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == [str(most)] * 2


def test_each_setting_of_a_cluster_is_explained() -> None:
    """Every group of lines has a comment before it."""
    text = (ROOT / "conf" / "spark-cluster.conf").read_text()
    for group in text.strip().split("\n\n"):
        assert group.startswith("# ")
