"""The Spark session of a job, with Delta, in UTC."""

import os
import sys
from weakref import WeakKeyDictionary

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


class SessionError(RuntimeError):
    """Raised when a session cannot carry the jobs. One line, with what to do."""


def spark_session(name: str) -> SparkSession:
    """The active session, or a new one with the settings that the jobs need. Raises SessionError without Delta."""
    # Workers run the driver's interpreter: the first python3 on the PATH need not have the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC").getOrCreate()
    found = "nothing"
    try:
        spark.catalog.tableExists("delta.`/does/not/exist`")
    except AnalysisException as error:
        found = (error.getCondition() or str(error)).split(".")[0]
    if "DELTA" not in found:
        raise SessionError(
            "this Spark session has no Delta: start it with --properties-file conf/spark-defaults.conf, or see there "
            "what to set"
        )
    return spark


COMPILED_FROM = 20_000
"""For so many rows Spark compiles its plans: a commit of 100,000 takes 5 s then, 13 s otherwise. A commit of hundreds
takes a third longer.
"""
_COMPILER = "spark.sql.codegen.factoryMode"
_COMPILING: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def session_for(spark: SparkSession, rows: int) -> SparkSession:
    """The session in which to work on so many rows: `spark`, or one beside it that compiles (conf/spark-defaults.conf
    says not to). That one is kept as long as `spark` is.
    """
    if rows < COMPILED_FROM or spark.conf.get(_COMPILER) != "NO_CODEGEN":
        return spark
    if spark not in _COMPILING:
        beside = spark.newSession()
        for name, value in spark.conf.getAll.items():
            if beside.conf.isModifiable(name):
                beside.conf.set(name, value)
        beside.conf.set(_COMPILER, "FALLBACK")
        beside.conf.set("spark.sql.codegen.wholeStage", "true")
        _COMPILING[spark] = beside
    return _COMPILING[spark]
