import subprocess
import sys

import pytest

from kafka_metadata_history.jars.errors import JarsError
from kafka_metadata_history.jars.fetch import fetch_jars
from tests.support.repository import ROOT

SIMPLE = ("org.slf4j", "slf4j-simple", "1.7.36")


def test_two_processes_at_once_fetch_one_whole_folder(tmp_path):
    folder = tmp_path / "jars" / "logger"
    command = [
        sys.executable,
        "-m",
        "kafka_metadata_history.jars",
        *SIMPLE,
        str(folder),
        "--no-transitive",
    ]
    both = [
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [printed for printed, _ in outputs] == [f"{folder}/slf4j-simple-1.7.36.jar\n"] * 2
    assert sorted(said for _, said in outputs) == ["", "fetching slf4j-simple 1.7.36 (once)\n"]
    assert not (tmp_path / "jars" / ".logger.part").exists()


def test_another_revision_replaces_the_folder(tmp_path):
    folder = tmp_path / "logger"
    folder.mkdir()
    (folder / "slf4j-simple-1.7.35.jar").touch()
    assert [jar.name for jar in fetch_jars(*SIMPLE, folder, transitive=False)] == [
        "slf4j-simple-1.7.36.jar"
    ]


def test_a_version_that_does_not_exist_is_named_and_leaves_nothing(tmp_path):
    folder = tmp_path / "kafka"
    with pytest.raises(JarsError) as failed:
        fetch_jars("org.apache.kafka", "kafka_2.13", "9.9.9", folder)
    assert str(failed.value) == (
        "cannot fetch org.apache.kafka:kafka_2.13:9.9.9: org.apache.kafka#kafka_2.13;9.9.9: not "
        "found. Check the version, and that the package repository can be reached."
    )
    assert not folder.exists()
    assert not (tmp_path / ".kafka.part").exists()


def test_a_module_brings_what_it_depends_on(tmp_path):
    jars = fetch_jars(*SIMPLE, tmp_path / "logger")
    assert {"slf4j-api-1.7.36.jar", "slf4j-simple-1.7.36.jar"} <= {jar.name for jar in jars}
