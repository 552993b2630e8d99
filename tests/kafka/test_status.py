"""A wrong password shows within one poll, in the log and in the status, and so does the right one after it."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs import poll_metadata, status
from jobs.common.config import load
from jobs.common.outages import Outages
from jobs.common.status import TO_DO
from jobs.history import History
from local_cluster import LocalCluster
from tests.lakes import new_lake

SAID = "authentication: 127.0.0.1:"


def test_a_wrong_password_shows_within_one_poll(
    spark: SparkSession,
    sasl_ssl_cluster: LocalCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listener = sasl_ssl_cluster.sasl_ssl
    password = tmp_path / "password"
    password.write_text("hunter2")
    secured = {
        "kafka.bootstrap.servers": listener.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": f"file:{password}",
        "kafka.ssl.ca.location": str(listener.ca_file),
    }
    lake = new_lake(spark, tmp_path / "lake")
    clusters = {"open": {"kafka.bootstrap.servers": sasl_ssl_cluster.bootstrap_servers}, "locked": secured}
    file = tmp_path / "config.yaml"
    # Polls of a slow machine are late, and no good poll may be for long before the one that is asked for.
    lax = {"latePercent": 100, "gaps": 9, "failedPercent": 100, "lastGoodPoll": "1h"}
    given = {"lake": str(lake), "clusters": clusters, "poll": {"pollInterval": "10s"}, "status": lax}
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    config, outages = load(str(file)), Outages()

    def lines_of_one_poll() -> list[tuple[str, str]]:
        caplog.clear()
        with caplog.at_level(logging.INFO, "kafka_metadata_history"):
            poll_metadata.run(spark, config, True)
            History(spark, config, outages=outages).catch_up(whole=True)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    def told() -> tuple[int, dict[str, Any], list[tuple[str | None, str]]]:
        exit_status = status.main(["--config", str(file), "--format", "json"])
        printed = json.loads(capsys.readouterr().out)
        polls = {each["cluster"]: each["polls"] for each in printed["clusters"]}
        return exit_status, polls, [(each["cluster"], each["threshold"]) for each in printed["crossed"]]

    said = lines_of_one_poll()
    ((level, line),) = (each for each in said if "cluster locked" in each[1])
    assert level == "ERROR"
    assert f"{SAID}{listener.bootstrap_servers.rpartition(':')[2]}: authentication refused" in line
    assert line.endswith(TO_DO["authentication"])
    assert any(level == "INFO" and ": 1 cluster(s) polled, 1 failing; " in line for level, line in said)
    exit_status, polls, crossed = told()
    assert exit_status == 3
    assert (polls["locked"]["failing"], polls["locked"]["error_kind"], polls["open"]["failing"]) == (
        1,
        "authentication",
        0,
    )
    assert polls["locked"]["error"].startswith("127.0.0.1:")
    assert crossed == [("locked", "lastGoodPoll"), ("locked", "failures"), (None, "upkeep")]
    assert "hunter2" not in str((said, polls))

    password.write_text(listener.users["alice"])
    said = lines_of_one_poll()
    ((level, line),) = (each for each in said if "cluster locked" in each[1])
    assert (level, line.partition(";")[0]) == ("WARNING", "cluster locked: polls are good again")
    assert any(": 2 cluster(s) polled, 0 failing; " in line for _, line in said)
    exit_status, polls, crossed = told()
    assert (exit_status, polls["locked"]["failing"], polls["locked"]["failed"]) == (3, 0, {"authentication": 1})
    assert crossed == [(None, "upkeep")]
