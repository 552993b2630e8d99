"""What Spark needs before the command starts it."""

import os
from pathlib import Path

import pytest

from jobs.configuration.spark import SparkSection
from jobs.run.session import SessionError
from kafka_metadata_history import spark
from kafka_metadata_history.jars import delta


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (
            "~/.cache/jars",
            "this user has no home folder to keep Delta's jars in: set HOME, or XDG_CACHE_HOME",
        ),
        (
            "/dev/null/jars",
            "Spark's jars cannot be kept in /dev/null/jars: Not a directory: set XDG_CACHE_HOME",
        ),
    ],
)
def test_a_folder_for_jars_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, place: str, says: str
) -> None:
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(spark, "JARS", Path(place))
    monkeypatch.setattr(delta, "JARS", Path(place))
    with pytest.raises(SessionError) as caught:
        spark.prepare("1g")
    assert str(caught.value) == says
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_later_settings_count_more_but_for_what_delta_needs() -> None:
    options = "spark.driver.extraJavaOptions"
    ours = {"spark.a": "1", "spark.b": "1", "spark.sql.extensions": "delta", options: "-Da=1"}
    conf_dir = {"spark.a": "2", "spark.b": "2", "spark.sql.extensions": "x"}
    assert spark.merged(ours, conf_dir, {"spark.b": "3", "spark.c": "3", options: "-Db=2"}) == {
        "spark.a": "2",
        "spark.b": "3",
        "spark.c": "3",
        "spark.sql.extensions": "delta",
        options: "-Da=1 -Db=2",
    }


def test_who_says_how_spark_starts_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """jobs/run/added.py names what is not in force then."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    monkeypatch.setattr(delta, "main", lambda: pytest.fail("nothing is fetched"))
    spark.prepare("1g", SparkSection({"a:b:1": ""}, {"spark.a": "1"}))
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "pyspark-shell"


def test_schemas_of_a_metastore_do_not_lie_in_the_cache_of_jars() -> None:
    implementation, place = "spark.sql.catalogImplementation", "spark.sql.warehouse.dir"
    ours = spark.settings()[place]
    with pytest.raises(SessionError, match=f"^{implementation} is hive: set {place}, too, "):
        spark.check_warehouse({implementation: "hive", place: ours}, ours)
    spark.check_warehouse({implementation: "hive", place: "/data/warehouse"}, ours)
    spark.check_warehouse({place: ours}, ours)
