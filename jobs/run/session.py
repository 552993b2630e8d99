"""The Spark session of a job, with Delta, in UTC."""

import logging
import os
import socket
import sys
import warnings
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.configuration.spark import NOTHING, SparkSection
from jobs.run import driver
from jobs.run.added import not_in_force, of_session
from jobs.run.object_stores import let_reach
from jobs.run.one_driver import hold
from metadata_source.errors import KafkaMetadataHistoryError
from schemas.lake import Lake

log = logging.getLogger("kafka_metadata_history")


class SessionError(KafkaMetadataHistoryError, RuntimeError):
    """Raised when a session cannot carry the jobs. One line, with what to do."""


def spark_session(
    name: str, lake: Lake | None = None, *, added: SparkSection = NOTHING
) -> SparkSession:
    """The active session, or a new one with the settings that the jobs need, which reaches `lake`.
    Raises SessionError without Delta, LakeError for secrets of the lake that cannot be had.

    `added`: the configuration's. Of its settings those count that can be set by now; a warning
    names what is not in force.
    """
    # Workers run the driver's interpreter: the first python3 on the PATH need not have the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault(driver.RELEASED_ON_EXIT, "true")
    check_server(os.environ.get("SPARK_REMOTE", ""))
    builder = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC")
    for setting, value in of_session(added).items():
        builder = builder.config(setting, value)
    with warnings.catch_warnings():
        # PySpark shows the values that a server of Spark Connect refuses; names follow below.
        warnings.filterwarnings("ignore", "Failed to set ", UserWarning)
        spark = builder.getOrCreate()
    found = "nothing"
    try:
        spark.catalog.tableExists("delta.`/does/not/exist`")
    except AnalysisException as error:
        if driver.is_of_metastore(error):
            raise SessionError(driver.without_metastore(error)) from error
        found = (error.getCondition() or str(error)).split(".")[0]
    if "DELTA" not in found:
        raise SessionError(
            "this Spark session has no Delta: start it with --properties-file "
            "conf/spark-defaults.conf, or see there what to set"
        )
    if not driver.has_jvm(spark):
        log.info(driver.LOST)
    driver.know_conflicts(spark)
    if (line := not_in_force(spark, added)) is not None:
        log.warning("%s", line)
    if lake is not None:
        let_reach(spark, lake)
    return spark


def reading_session(name: str, config: Config) -> SparkSession:
    """The session of a job that reads the lake of its configuration; see spark_session."""
    return spark_session(name, config.lake, added=config.spark)


def writing_session(name: str, config: Config) -> SparkSession:
    """The session of a job that writes that lake. Raises LakeError, too, where another driver
    writes it, and the lake bears one alone.
    """
    spark = reading_session(name, config)
    hold(spark, config.lake)
    return spark


ANSWER_S = 10.0
"""How long a server of Spark Connect may take to be reached. PySpark tries for many minutes."""
_DEFAULT_PORT = 15002


def check_server(remote: str) -> None:
    """Raise SessionError if nobody listens where `remote`, the address of a server of Spark Connect
    (`sc://...`), leads. Of the address only host and port are shown: it may hold a token.
    """
    found = urlsplit(remote)
    if found.scheme != "sc" or not found.hostname:
        return
    place = found.hostname, found.port or _DEFAULT_PORT
    try:
        socket.create_connection(place, ANSWER_S).close()
    except OSError as error:
        raise SessionError(
            f"SPARK_REMOTE: no server of Spark Connect at {place[0]}:{place[1]} "
            f"({error.strerror or error}): start it, or correct the address"
        ) from error


COMPILED_FROM = 20_000
"""For so many rows Spark compiles its plans: a commit of 100,000 takes 5 s then, 13 s otherwise. A
commit of hundreds takes a third longer.
"""
_COMPILER = "spark.sql.codegen.factoryMode"
_COMPILING = {_COMPILER: "FALLBACK", "spark.sql.codegen.wholeStage": "true"}


def session_for(spark: SparkSession, rows: int) -> SparkSession:
    """The session in which to work on so many rows: `spark`, or one beside it that compiles, where
    the settings say not to (conf/spark-defaults.conf).
    """
    if rows < COMPILED_FROM or setting(spark, _COMPILER) != "NO_CODEGEN":
        return spark
    return driver.session_beside(spark, _COMPILING)


def setting(spark: SparkSession, name: str) -> str | None:
    """A setting of Spark; None where it is not set, or where the session does not tell: serverless
    runtimes keep most of theirs to themselves.
    """
    try:
        return spark.conf.get(name, None)
    except PySparkException:
        return None
