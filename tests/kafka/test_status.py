"""A wrong password shows within one poll, in the log and in the status, and so does the right one
after it.
"""

import json
import logging
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs.configuration.config import load
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.rounds.history import Run
from jobs.run import metadata_stream
from jobs.run.outages import Outages
from kafka_metadata_history import command as installed
from local_cluster import LocalCluster
from metadata_source.outcomes import TO_DO
from tests.support.lakes import new_lake
from tests.support.pipelines import Pipeline, command, environment
from tests.support.repository import ROOT

LAX = {"latePercent": 100, "gaps": 9, "failedPercent": 100, "lastGoodPoll": "1h"}
"""Polls of a slow machine are late, and no good poll may be for long before the one that is asked
for.
"""


def config_file(folder: Path, cluster: LocalCluster, password: Path, interval: str) -> Path:
    """A cluster that wants a password."""
    listener = cluster.sasl_ssl
    locked = {
        "kafka.bootstrap.servers": listener.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": f"file:{password}",
        "kafka.ssl.ca.location": str(listener.ca_file),
    }
    poll = {"pollInterval": interval}
    file = folder / "config.yaml"
    given = {
        "lake": str(folder / "lake"),
        "clusters": {"locked": locked},
        "poll": poll,
        "status": LAX,
    }
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    return file


@pytest.mark.soak
def test_a_wrong_password_shows_within_one_poll(
    spark: SparkSession,
    sasl_ssl_cluster: LocalCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listener, password = sasl_ssl_cluster.sasl_ssl, tmp_path / "password"
    password.write_text("hunter2")
    new_lake(spark, tmp_path / "lake")
    file = config_file(tmp_path, sasl_ssl_cluster, password, "10s")
    config, outages = load(str(file)), Outages()

    def lines_of_one_poll() -> list[tuple[str, str]]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "kafka_metadata_history"):
            metadata_stream.run(spark, config, True)
            Engine(spark, config, Polls(), Run(outages)).catch_up(whole=True)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    def told() -> tuple[int, dict[str, Any], list[tuple[str | None, str]]]:
        exit_status = installed.exit_status(["status", "--config", str(file), "--format", "json"])
        printed = json.loads(capsys.readouterr().out)
        polls = {each["cluster"]: each["polls"] for each in printed["clusters"]}
        return (
            exit_status,
            polls,
            [(each["cluster"], each["threshold"]) for each in printed["crossed"]],
        )

    said = lines_of_one_poll()
    ((level, line),) = (each for each in said if "cluster locked" in each[1])
    assert level == "ERROR"
    assert f": authentication: {listener.bootstrap_servers}: authentication refused" in line
    assert line.endswith(TO_DO["authentication"])
    assert any(
        level == "INFO" and ": 0 cluster(s) polled, 1 failing; " in line for level, line in said
    )
    exit_status, polls, crossed = told()
    assert exit_status == 3
    assert (polls["locked"]["failing"], polls["locked"]["error_kind"]) == (1, "authentication")
    assert polls["locked"]["error"].startswith(
        f"{listener.bootstrap_servers}: authentication refused"
    )
    assert crossed == [("locked", "lastGoodPoll"), ("locked", "failures"), (None, "upkeep")]
    assert "hunter2" not in str((said, polls))

    password.write_text(listener.users["alice"])
    said = lines_of_one_poll()
    ((level, line),) = (each for each in said if "cluster locked" in each[1])
    assert (level, line.partition(";")[0]) == ("WARNING", "cluster locked: polls are good again")
    assert any(": 1 cluster(s) polled, 0 failing; " in line for _, line in said)
    exit_status, polls, crossed = told()
    assert (exit_status, polls["locked"]["failing"], polls["locked"]["failed"]) == (
        3,
        0,
        {"authentication": 1},
    )
    assert crossed == [(None, "upkeep")]


@pytest.mark.soak
def test_the_running_pipeline_says_it_and_so_does_the_command_beside_it(
    sasl_ssl_cluster: LocalCluster, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("hunter2")
    file = config_file(tmp_path, sasl_ssl_cluster, password, "2s")

    def asked(form: str) -> tuple[int, str]:
        done = subprocess.run(
            command("status", file, "--format", form),
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout.decode()

    with Pipeline(file) as pipelined:
        pipelined.wait_for_batches(1)
        error = "ERROR kafka_metadata_history.rounds: cluster locked"
        pipelined.until(lambda: error in pipelined.log(), "the line")
        # Polls that say nothing new are noted after three minutes.
        failing = "0 cluster(s) polled, 1 failing"
        pipelined.until(lambda: failing in pipelined.log(), "a round")
        exit_status, table = asked("table")
        assert exit_status == 3
        assert "locked: failures: " in table
        assert "authentication: localhost:" in table
        password.write_text(sasl_ssl_cluster.sasl_ssl.users["alice"])
        well = "cluster locked: polls are good again"
        pipelined.until(lambda: well in pipelined.log(), "the line after it")
        polled = "1 cluster(s) polled, 0 failing"
        pipelined.until(lambda: polled in pipelined.log(), "a round")
        exit_status, told = asked("json")
        print(pipelined.log(), told)
        assert (exit_status, json.loads(told)["crossed"]) == (0, [])
        log = pipelined.log()
    said = [line for line in log.splitlines() if "cluster locked" in line]
    assert [re.sub(r"^.{24}", "", line).split()[0] for line in said] == ["ERROR", "WARNING"]
    assert re.search(
        r" INFO kafka_metadata_history\.rounds: round \d+: 0 cluster\(s\) polled, 1 failing; "
        r"\d+ row",
        log,
    )
    assert "hunter2" not in log
