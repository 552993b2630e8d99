"""What the jobs ask of Spark beyond SQL and frames. A classic session has its driver's JVM beside this process, which
can do it; a session of Spark Connect has a connection alone. Nothing else in the jobs reaches for the JVM.
"""

import signal
import sys
from types import FrameType
from typing import Any, cast
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

try:
    from py4j.protocol import Py4JJavaError

    JAVA_ERRORS: tuple[type[Exception], ...] = (Py4JJavaError,)
    """Errors that PySpark has no exception for, as they come out of the JVM."""
except ImportError:  # pyspark-client, which serverless runtimes have, is without it
    JAVA_ERRORS = ()

LOST = (
    "a session of Spark Connect: a cluster whose log cannot be read holds up those of the others, the server's own "
    "settings say how jobs share its slots, and how plans are compiled"
)
"""What the jobs have to do without where there is no JVM. One line."""

_BESIDE: WeakKeyDictionary[SparkSession, SparkSession] = WeakKeyDictionary()


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session is a classic one."""
    return hasattr(spark, "_jvm")


def java_text(error: BaseException) -> str:
    """The message of an error, Java's own for one of Java's."""
    return str(cast("Any", error).java_exception.toString() if isinstance(error, JAVA_ERRORS) else error)


def know_conflicts(spark: SparkSession) -> None:
    """Let errors of Delta that a server of Spark Connect sends be the exceptions that they are in a classic session."""
    if not has_jvm(spark):
        import delta.connect  # noqa: F401, PLC0415 - registers them; asks for gRPC, which no classic session needs


def end_with_process(spark: SparkSession) -> None:
    """Let SIGTERM end the session, with all that runs in it, as it ends a classic one with its JVM: a server of Spark
    Connect would go on with a query until it misses its client, which takes an hour.
    """
    if not has_jvm(spark):
        signal.signal(signal.SIGTERM, _exit)


def _exit(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


RELEASED_ON_EXIT = "SPARK_CONNECT_RELEASE_SESSION_ON_EXIT"
"""The variable by which PySpark ends its session of Spark Connect when the process ends."""


def take_pool(spark: SparkSession, pool: str) -> None:
    """Let jobs of this thread share the slots with those of other pools, rather than wait behind them."""
    if has_jvm(spark):
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", pool)


def session_beside(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    """A session with the settings of `spark`, but for these, whose frames go with those of `spark`; kept as long as
    `spark` is. Frames of two sessions of Spark Connect do not go together: there it is `spark` itself.
    """
    if not has_jvm(spark):
        return spark
    if spark not in _BESIDE:
        beside = spark.newSession()
        for name, value in (spark.conf.getAll | settings).items():
            if beside.conf.isModifiable(name):
                beside.conf.set(name, value)
        _BESIDE[spark] = beside
    return _BESIDE[spark]


def forget_planned(spark: SparkSession, checkpoint: str) -> bool:
    """Let the next query of a checkpoint plan the batch again that the one before planned last and did not commit;
    return whether it will.

    Only after that batch has failed while its source was read: then the sink has nothing of it. Spark keeps the plan
    of batch n in `offsets/n`, and writes `commits/n` when it is done. A session of Spark Connect cannot reach these
    files.
    """
    if not has_jvm(spark):
        return False
    # By Spark's own way to files: a checkpoint is where that reaches it.
    path = cast("Any", spark)._jvm.org.apache.hadoop.fs.Path  # noqa: SLF001
    files = path(checkpoint).getFileSystem(cast("Any", spark)._jsc.hadoopConfiguration())  # noqa: SLF001

    def batches(folder: str) -> set[int]:
        place = path(f"{checkpoint}/{folder}")
        names = [each.getPath().getName() for each in files.listStatus(place)] if files.exists(place) else []
        return {int(name) for name in names if name.isdigit()}

    for batch in batches("offsets"):
        if batch > max(batches("commits"), default=-1):
            files.delete(path(f"{checkpoint}/offsets/{batch}"), False)
    return True
