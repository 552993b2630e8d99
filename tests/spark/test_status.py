"""The status of a lake: facts as the tables have them, and the job as a command."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from jobs import status
from jobs.configuration.config import load
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.in_spark import status_in_spark
from kafka_metadata_history.answers.status import Cluster, ClusterLog, LakeStatus, Log, PollCounts
from kafka_metadata_history.opened import status_without_spark
from schemas import bronze, silver
from schemas.groups import REBALANCES
from schemas.internal import STATE
from schemas.lake import TABLES, Lake
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, good_answer
from tests.support.lakes import keep, new_lake

NOW = datetime.now(UTC).replace(microsecond=0)
BEGAN = NOW - timedelta(minutes=5)
STREAM = f"{BEGAN:%Y%m%dT%H%M%SZ}-00000000"
LED = {
    "error_code": 0,
    "leader": 1,
    "leader_epoch": 5,
    "replicas": [1, 2],
    "isr": [1, 2],
    "offline_replicas": [],
}
LAX = {
    "lastGoodPoll": "1d",
    "failures": 99,
    "unanswered": 99,
    "failedPercent": 99,
    "latePercent": 99,
    "gaps": 9,
    "lostOffsets": 99,
    "behind": "1d",
}


def at(n: int) -> datetime:
    return BEGAN + timedelta(seconds=10 * n)


def answered(n: int, *, late_s: int = 0) -> Answer:
    answer = good_answer(STREAM, n, at(n), dict.fromkeys((1, 2)), {"orders": [LED]}, batch=n)
    sent = at(n) + timedelta(seconds=late_s)
    return replace(answer, sent_at=sent, received_at=sent + timedelta(milliseconds=100))


def failed(n: int, kind: str) -> Answer:
    return Answer(f"{STREAM}/{n:012d}", STREAM, n, n, at(n), 10_000, ok=False, error_kind=kind)


def files(lake: Lake) -> dict[Path, int]:
    """All that is in the lake, with when it was written."""
    return {each: each.stat().st_mtime_ns for each in Path(str(lake)).rglob("*")}


def config_file(folder: Path, lake: str, thresholds: dict[str, Any], *aliases: str) -> Path:
    clusters = {alias: {"kafka.bootstrap.servers": "127.0.0.1:1"} for alias in aliases}
    clusters["prod"] |= {"kafka.controller.bootstrap.servers": "127.0.0.1:1", "enrich": "offsets"}
    logs: dict[str, Any] = {"groupLog": {}, "clusterLog": {}}
    given = {
        "lake": lake,
        "clusters": clusters,
        "poll": {"pollInterval": "10s"},
        **logs,
        "status": thresholds,
    }
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(given, sort_keys=False))
    return file


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A cluster with failed polls, a gap, a late poll, and two polls that nobody has made history
    of; its log, in which something was lost; offsets and rebalances of which lag and cost have not
    had all. Another cluster was never polled.
    """
    made = new_lake(spark, tmp_path_factory.mktemp("status") / "lake")
    old = replace(answered(0), scheduled_at=at(0) - timedelta(days=2))
    polls = [
        old,
        *map(answered, range(1, 6)),
        failed(6, "timeout"),
        failed(7, "unreachable"),
        answered(20),
    ]
    rows = bronze_rows("prod", [*polls, answered(21, late_s=6)])
    asked = {"record": "answer", "kind": "offsets", "digest": None}
    for row in [row for row in rows if row["record"] == "poll"]:
        outcome, answered_at = (
            ("failed: no answer", None) if row["n"] == 21 else ("ok", row["received_at"])
        )
        times = {"asked_at": row["received_at"], "answered_at": answered_at, "received_at": None}
        rows.append(row | asked | times | {"outcome": outcome})
    keep(made, rows)
    waiting = bronze_rows("prod", [failed(22, "authentication"), failed(23, "authentication")])
    for row in waiting:
        row["error"] = "host:9092: no\x1b[31m\nsuch user"
    stored.append(made, bronze.METADATA_POLLS, waiting)
    columns = "cluster, log_partition, offset, record, read_at, day, next_offset"
    spark.sql(
        f"""INSERT INTO {made.identifier(bronze.GROUP_LOG)} ({columns}) VALUES
        ('prod', 1, 5, 'read', '{at(20)}', '{NOW.date()}', 10),
        ('prod', 1, 10, 'lost', '{at(21)}', '{NOW.date()}', 17),
        ('prod', 1, 17, 'read', '{at(22)}', '{NOW.date()}', 20),
        ('gone', 1, 0, 'lost', '{at(22)}', '{NOW.date()}', 20)
        """
    )
    taken = {"history": "rebalance_history", "cluster": "prod", "cluster_id": "id-prod", "round": 9}
    read = taken | {
        "history": "cluster_log",
        "last_seen_at": at(20),
        "done_at": at(19),
        "memory": "{}",
    }
    told = {
        "cluster_id": "id-prod",
        "cluster": "prod",
        "source": "log",
        "group_type": "classic",
        "is_live": False,
    }
    ended = [
        told | {"id": f"r{n}", "group_id": "g", "ended_before": at(n), "updated_at": at(n + 1)}
        for n in (3, 4)
    ]
    others = [
        ended[1] | {"id": "share", "group_type": "share"},
        ended[1] | {"id": "lasts", "ended_before": None},
    ]
    others.append(ended[1] | {"id": "polls", "source": "polls"})
    stored.append(made, REBALANCES, [{"began_before": at(2)} | row for row in (*ended, *others)])
    cost = {"history": "rebalance_cost", "cluster": "", "round": 9}
    cost |= {"done_at": at(4), "memory": "{}"}
    lag = taken | {"history": "group_lag", "done_poll": f"{STREAM}/{5:012d}", "memory": "{}"}
    stored.append(made, STATE, [cost, lag])
    stored.append(made, STATE, [taken | {"positions": {"1": [0, 10]}, "memory": "{}"}, read])
    return made


@pytest.fixture(scope="module")
def file(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return config_file(tmp_path_factory.mktemp("config"), str(lake), {}, "prod", "new")


@pytest.fixture(scope="module")
def facts(spark: SparkSession, file: Path) -> LakeStatus:
    return status_in_spark(spark, load(str(file)), NOW)


def since(cluster: Cluster) -> dict[str, datetime | None]:
    """Since when something waits, by history."""
    waiting = (each for each in cluster.waiting if each.history != "incidents")
    return {each.history: each.since for each in waiting}


def test_facts_are_what_the_tables_have(facts: LakeStatus) -> None:
    interval = timedelta(seconds=10)
    expected = PollCounts(
        polls=11,
        failed={"timeout": 1, "unreachable": 1, "authentication": 2},
        late=1,
        good_at=at(21) + timedelta(seconds=6.1),
        failing=2,
        failing_since=at(22),
        error_kind="authentication",
        error="host:9092: no\x1b[31m\nsuch user",
        cluster_id="id-prod",
    )
    gap = at(20) - at(5)
    log = Log(read_at=at(22), lost=7)
    assert [since(each) for each in facts.clusters] == [
        {
            "silver": at(22),
            "gold": None,
            "group log": at(21),
            "rebalance cost": at(5),
            "lag": at(20),
        },
        {
            "silver": None,
            "gold": None,
            "group log": None,
            "rebalance cost": None,
        },
    ]
    assert [replace(each, waiting=()) for each in facts.clusters] == [
        Cluster(
            *("prod", interval, expected, expected.good_at),
            gaps=1,
            gap_time=gap,
            log=log,
            told_by="polls",
            cluster_log=ClusterLog(at(20), at(19)),
            offsets_at=at(20) + timedelta(seconds=0.1),
            asked=(Asked("offsets", 1, at(21), "failed: no answer"),),
        ),
        Cluster("new", interval, log=Log(never_read=True)),
    ]
    assert (facts.window, facts.rounds, facts.upkeep_at) == (timedelta(hours=1), 9, None)


def test_who_has_no_spark_finds_the_same(facts: LakeStatus, file: Path) -> None:
    assert status_without_spark(load(str(file)), NOW) == facts


def test_sizes_are_those_of_the_files(facts: LakeStatus, lake: Lake) -> None:
    sizes = {size.table: size for size in facts.sizes}
    assert set(sizes) == {table.full_name for table in TABLES}
    polls = list(Path(lake.path(bronze.METADATA_POLLS)).rglob("*.parquet"))
    assert sizes["bronze.metadata_polls"].bytes == sum(
        file.stat().st_size for file in polls if "_delta_log" not in str(file)
    )
    assert sizes["silver.quorum"].files == 0
    assert sizes[silver.POLL_GAPS.full_name].files == 1


@pytest.mark.soak
def test_the_command_says_what_is_crossed_and_writes_nothing(
    spark: SparkSession, lake: Lake, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(lake)
    assert status.main(["--config", str(file)]) == 3
    table = capsys.readouterr().out
    assert (
        "prod: failures: the last 2 poll(s) failed: authentication: host:9092: no\\x1b[31m\\nsuch"
        in table
    )
    assert "new: lastGoodPoll: there was no good poll yet" in table
    assert status.main(["--config", str(file), "--format", "json"]) == 3
    assert files(lake) == before
    told = json.loads(capsys.readouterr().out)
    assert [each["cluster"] for each in told["clusters"]] == ["prod", "new"]
    assert {each["threshold"] for each in told["crossed"] if each["cluster"] == "prod"} >= {
        "failures",
        "gaps",
        "lostOffsets",
    }
    # All is well, by lax thresholds, once polls are good again, the tables were kept up, and nobody
    # asks for the cluster that was never polled.
    stored.append(lake, bronze.METADATA_POLLS, bronze_rows("prod", [answered(24)]))
    stored.append(
        lake,
        STATE,
        [{"history": "upkeep", "cluster": "", "round": 0, "done_at": NOW, "memory": "{}"}],
    )
    before = files(lake)
    assert (
        status.main(
            [
                "--config",
                str(config_file(tmp_path, str(lake), LAX, "prod")),
                "--format",
                "prometheus",
            ]
        )
        == 0
    )
    assert files(lake) == before
    metrics = {
        each.name: each.samples for each in text_string_to_metric_families(capsys.readouterr().out)
    }
    (lost,) = metrics["kafka_metadata_history_recent_lost_offsets"]
    assert (lost.labels, lost.value) == ({"cluster": "prod"}, 7)


def test_a_lake_that_is_not_there_yet_is_one_line(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        status.main(["--config", str(config_file(tmp_path, str(tmp_path / "lake"), {}, "prod"))])
        == 1
    )
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"status: bronze.metadata_polls: no such table in {tmp_path / 'lake'}; "
        "`kafka-metadata-history run` makes it\n"
    )
    assert not (tmp_path / "lake").exists()
