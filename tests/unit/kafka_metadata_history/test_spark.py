"""What Spark needs before the command starts it."""

import os
from pathlib import Path

import pytest

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
            "Delta's jars cannot be kept in /dev/null/jars: Not a directory: set XDG_CACHE_HOME",
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
