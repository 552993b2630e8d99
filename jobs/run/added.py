"""The configuration's jars and settings of Spark (`spark`) in a session: which of them count.

Whoever starts Spark reads jars and Java's options before Java begins: the command, or spark-submit,
PYSPARK_SUBMIT_ARGS or a server of Spark Connect. With all other settings a session can still be
built. There the configuration's count most, as all that a program sets counts most in Spark.
"""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.spark import SparkSection, jar_of
from jobs.run import driver

_BEFORE_JAVA = (
    "spark.driver.defaultJavaOptions",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraLibraryPath",
    "spark.jars.",
    "spark.submit.",
)
"""Beginnings of the settings that are read before Java begins."""
_OF_SESSION = ("spark.databricks.", "spark.hadoop.", "spark.sql.")
"""Beginnings of the settings that a session reads, and may have set for itself."""


def of_session(added: SparkSection) -> dict[str, str]:
    """Return the settings that a session can be built with."""
    return {
        name: value for name, value in added.settings.items() if not name.startswith(_BEFORE_JAVA)
    }


def not_in_force(spark: SparkSession, added: SparkSection) -> str | None:
    """Say in a line which jars and settings this session lacks, and how to give them; None if it
    has all. Values are not shown.
    """
    settings = [
        name for name, value in added.settings.items() if not _is_in_force(spark, name, value)
    ]
    files = _files(spark) if added.packages else frozenset()
    jars = [each for each in added.packages if not _is_in(jar_of(each), files)]
    if not settings and not jars:
        return None
    # --packages knows no classifiers.
    plain = [each for each in jars if each.count(":") == 2]
    classified = [jar_of(each) for each in jars if each not in plain]
    given = [
        *([f"--packages {','.join(plain)}"] if plain else []),
        *([f"--jars {','.join(classified)}"] if classified else []),
        *(f"--conf {name}=..." for name in settings),
    ]
    keys = [*(["spark.packages"] if jars else []), *(f"spark.settings.{name}" for name in settings)]
    starts = "spark-submit" if driver.has_jvm(spark) else "the server of Spark Connect"
    return (
        f"not in force, since Spark was started without: {', '.join(keys)} of the configuration; "
        f"start {starts} with {' '.join(given)}"
    )


def _is_in_force(spark: SparkSession, name: str, wanted: str) -> bool:
    found = _value(spark, name)
    # The command adds Java's options to its own; Spark makes a URI of the place of its schemas.
    is_part = name.startswith((*_BEFORE_JAVA, "spark.sql.warehouse.dir"))
    return found == wanted or (is_part and wanted.rstrip("/") in (found or ""))


def _value(spark: SparkSession, name: str) -> str | None:
    """Return the value of a setting; None where it is not set, or not shown: serverless runtimes
    keep most of theirs to themselves.
    """
    if driver.has_jvm(spark) and not name.startswith(_OF_SESSION):
        return driver.started_with(spark, name)
    try:
        return spark.conf.get(name, None)
    except PySparkException:
        return None


def _files(spark: SparkSession) -> frozenset[str]:
    """Return the names of the jars on the class path, and of those that Spark was given."""
    given = (_value(spark, "spark.jars") or "").split(",")
    return frozenset(driver.jars(spark) | {place.rpartition("/")[2] for place in given})


def _is_in(jar: str, files: frozenset[str]) -> bool:
    # Of --packages, Spark's files begin with the group: org.apache.hadoop_hadoop-aws-3.5.0.jar.
    return any(file == jar or file.endswith(f"_{jar}") for file in files)
