"""The configuration's jars and settings of Spark, in a session that others have started. Sessions
are of dicts here; tests/kafka/test_spark_clusters_page.py has real ones.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.configuration.spark import SparkSection
from jobs.run.added import not_in_force, of_session

AWS = "org.apache.hadoop:hadoop-aws:3.5.0"
CLASSIFIED = "com.example:native:1.0:linux"
JAVA = "spark.driver.extraJavaOptions"


def session(
    settings: dict[str, str] | None = None,
    *,
    started: dict[str, str] | None = None,
    path: str = "/spark/jars/scala-library.jar",
) -> Any:
    """A classic one with settings of its own, beside those that Spark was started with."""
    conf = SimpleNamespace(get=(settings or {}).get)
    system = SimpleNamespace(getProperty=lambda name: {"java.class.path": path}[name])
    lang = SimpleNamespace(System=system)
    return SimpleNamespace(
        conf=conf,
        sparkContext=SimpleNamespace(getConf=lambda: started or {}),
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)),
    )


def connected(settings: dict[str, str]) -> Any:
    return SimpleNamespace(conf=SimpleNamespace(get=settings.get))


def test_what_is_read_before_java_begins_is_not_set_in_a_session() -> None:
    given = {
        JAVA: "-Da=1",
        "spark.jars.ivy": "x",
        "spark.hadoop.a": "1",
        "spark.executor.cores": "2",
    }
    assert of_session(SparkSection(settings=given)) == {
        "spark.hadoop.a": "1",
        "spark.executor.cores": "2",
    }


@pytest.mark.parametrize(
    ("added", "spark"),
    [
        (SparkSection(), session()),
        (SparkSection(settings={"spark.hadoop.a": "1"}), session({"spark.hadoop.a": "1"})),
        (SparkSection(settings={"spark.ui.port": "1"}), session(started={"spark.ui.port": "1"})),
        (SparkSection(settings={JAVA: "-Da=1"}), session(started={JAVA: "-Db=2 -Da=1 -Dc=3"})),
        (
            SparkSection(settings={"spark.sql.warehouse.dir": "/data/"}),
            session({"spark.sql.warehouse.dir": "file:/data"}),
        ),
        (SparkSection({AWS: ""}), session(path=f"/a.jar:/jars/{AWS.split(':')[1]}-3.5.0.jar")),
        (
            SparkSection({AWS: ""}),
            session(
                started={"spark.jars": "file:/a.jar,file:/i/org.apache.hadoop_hadoop-aws-3.5.0.jar"}
            ),
        ),
        (SparkSection({CLASSIFIED: ""}), session(path="/jars/native-1.0-linux.jar")),
        (SparkSection(settings={"spark.ui.port": "1"}), connected({"spark.ui.port": "1"})),
        (SparkSection({AWS: ""}), connected({"spark.jars": "/jars/hadoop-aws-3.5.0.jar"})),
    ],
)
def test_what_is_in_force_needs_no_word(added: SparkSection, spark: Any) -> None:
    assert not_in_force(spark, added) is None


@pytest.mark.parametrize(
    ("added", "spark", "keys", "start"),
    [
        (
            SparkSection({AWS: "", "a:b:1": "", CLASSIFIED: ""}),
            session(path="/jars/b-1.jar:/jars/native-1.0.jar:/jars/hadoop-aws-3.4.0.jar"),
            "spark.packages",
            f"spark-submit with --packages {AWS} --jars native-1.0-linux.jar",
        ),
        # A session may say that it has a setting which Spark's own parts read as they began.
        (
            SparkSection(settings={"spark.executor.memory": "9g", JAVA: "-Da=1"}),
            session({"spark.executor.memory": "9g"}, started={JAVA: "-Db=1"}),
            f"spark.settings.spark.executor.memory, spark.settings.{JAVA}",
            f"spark-submit with --conf spark.executor.memory=... --conf {JAVA}=...",
        ),
        (
            SparkSection({AWS: ""}, {"spark.executor.memory": "9g"}),
            connected({}),
            "spark.packages, spark.settings.spark.executor.memory",
            f"the server of Spark Connect with --packages {AWS} --conf spark.executor.memory=...",
        ),
    ],
)
def test_what_is_not_in_force_is_one_line(
    added: SparkSection, spark: Any, keys: str, start: str
) -> None:
    assert not_in_force(spark, added) == (
        f"not in force, since Spark was started without: {keys} of the configuration; start {start}"
    )
