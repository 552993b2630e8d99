"""The Spark session of a job, with Delta, in UTC."""

import os
import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


class SessionError(RuntimeError):
    """Raised when a session cannot carry the jobs. One line, with what to do."""


def spark_session(name: str) -> SparkSession:
    """The active session, or a new one with the settings that the jobs need. Raises SessionError without Delta."""
    # Workers run the driver's interpreter: the first python3 on the PATH need not have the package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.appName(name).config("spark.sql.session.timeZone", "UTC").getOrCreate()
    try:
        spark.catalog.tableExists("delta.`/does/not/exist`")
    except AnalysisException as error:
        if "DELTA" not in (error.getCondition() or str(error)).split(".")[0]:
            raise SessionError(_NO_DELTA) from error
    else:
        raise SessionError(_NO_DELTA)
    return spark


_NO_DELTA = "this Spark session has no Delta: start it with --properties-file conf/spark-defaults.conf, or see there what to set"
