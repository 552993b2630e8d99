"""The session that compiles: one beside each session, for as long as that is there. Settings are a
dict here.
"""

import gc
import re
import socket
import warnings
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from jobs.configuration.spark import SparkSection
from jobs.run.driver import RELEASED_ON_EXIT
from jobs.run.session import (
    COMPILED_FROM,
    SessionError,
    check_server,
    session_for,
    spark_session,
)


class Settings(dict[str, str]):
    """Those of a session; that of Spark's own is fixed."""

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802 - as Spark has it
        return dict(self)

    def isModifiable(self, name: str) -> bool:  # noqa: N802
        return name != "spark.master"

    def set(self, name: str, value: str) -> None:
        assert self.isModifiable(name)
        self[name] = value


class Session:
    _jvm = object()

    def __init__(self, **settings: str) -> None:
        self.conf = Settings({name.replace("_", "."): value for name, value in settings.items()})

    def newSession(self) -> "Session":  # noqa: N802
        return Session()


def session(mode: str = "NO_CODEGEN") -> Any:
    return Session(
        spark_master="local", spark_sql_codegen_factoryMode=mode, spark_sql_shuffle_partitions="4"
    )


def test_many_rows_are_worked_on_in_one_session_that_compiles() -> None:
    spark = session()
    assert session_for(spark, COMPILED_FROM - 1) is spark
    beside = session_for(spark, COMPILED_FROM)
    assert beside is session_for(spark, 10 * COMPILED_FROM) is not spark
    assert beside.conf == {
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.shuffle.partitions": "4",
    }
    assert session_for(session(), COMPILED_FROM) is not beside
    compiling = session("FALLBACK")
    assert session_for(compiling, COMPILED_FROM) is compiling


def test_it_goes_with_its_session() -> None:
    spark = session()
    beside = weakref.ref(session_for(spark, COMPILED_FROM))
    gc.collect()
    assert beside() is not None
    del spark
    gc.collect()
    assert beside() is None


def test_a_server_that_is_not_there_is_said_at_once_and_no_token() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(
            SessionError, match=re.escape(f"no server of Spark Connect at 127.0.0.1:{port} (")
        ) as error:
            check_server(f"sc://127.0.0.1:{port}/;token=secret")
        assert "secret" not in str(error.value)
        held.listen()
        check_server(f"sc://127.0.0.1:{port}/;use_ssl=true")
    for other in ("", "local[2]"):
        check_server(other)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Lets sessions be built by a function, in an environment that is as it was afterwards."""
    for name in ("PYSPARK_PYTHON", RELEASED_ON_EXIT):
        monkeypatch.setenv(name, "true")
    monkeypatch.delenv("SPARK_REMOTE", raising=False)

    def build(by: Callable[[], Any]) -> None:
        monkeypatch.setattr(SparkSession.Builder, "getOrCreate", lambda _: by())

    return build


def test_values_of_settings_that_a_server_refuses_are_not_shown(
    built: Callable[[Callable[[], Any]], None],
) -> None:
    """As PySpark shows them; whose settings they are is known (jobs/run/added.py)."""

    def build() -> Any:
        warnings.warn("Failed to set spark.a to Some(secret) due to [CANNOT_MODIFY]", stacklevel=1)
        return SimpleNamespace(catalog=SimpleNamespace(tableExists=lambda _: False))

    built(build)
    with pytest.raises(SessionError, match="has no Delta"):
        spark_session("test", added=SparkSection(settings={"spark.a": "secret"}))


def test_a_metastore_that_is_gone_is_not_taken_for_a_session_without_delta(
    built: Callable[[Callable[[], Any]], None],
) -> None:
    def fail(_: str) -> bool:
        raise AnalysisException("HiveException: Could not connect to meta store using any URI")

    built(lambda: SimpleNamespace(catalog=SimpleNamespace(tableExists=fail)))
    with pytest.raises(SessionError, match="Hive's metastore does not answer"):
        spark_session("test")
