"""The `java` to run."""

import pytest

from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.java import java_command


def test_a_missing_java_is_one_clear_line(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(
        JarsError, match=f"no java under JAVA_HOME={tmp_path}: install Java 17 or newer"
    ):
        java_command()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsError, match="no java on the PATH: install Java 17"):
        java_command()
