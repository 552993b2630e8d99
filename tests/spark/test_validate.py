"""Validation finds what is planted, names it, and looks only at what is new."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs import validate
from jobs.configuration.config import Config, load
from jobs.validation import run, validity
from jobs.validation.validity import Batch, Finding, Rule
from schemas import bronze, groups, internal, quality, silver
from schemas.transactions import TRANSACTION_LOG
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import Answer, good_answer
from tests.support.lakes import keep, make_history, new_lake

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
STREAM = "20261101T110000Z-00000000"


def partition(
    leader: int, epoch: int, replicas: list[int], isr: list[int], offline: list[int] | None = None
) -> dict[str, Any]:
    return {
        "error_code": 0,
        "leader": leader,
        "leader_epoch": epoch,
        "replicas": replicas,
        "isr": isr,
        "offline_replicas": offline or [],
    }


def answer(n: int, batch: int, topics: dict[str, list[dict[str, Any]]], late_s: int = 0) -> Answer:
    at = NOON + timedelta(seconds=10 * n + late_s)
    return good_answer(STREAM, n, at, dict.fromkeys((1, 2, 3)), topics, batch=batch)


GOOD = {
    "orders": [partition(1, 5, [1, 2, 3], [1, 2, 3]), partition(2, 5, [2, 3, 1], [1, 2, 3])],
    "clicks": [partition(-1, 3, [1, 2], [1]), partition(2, 3, [2, 3], [2, 3])],
    "logs": [partition(3, 7, [3], [3])],
}
ODD = {
    "orders": [partition(9, 5, [1, 2, 3], [1, 2, 3]), partition(2, 5, [2, 3, 1], [1, 2, 4])],
    "clicks": [partition(-1, 3, [1, 2], [1], offline=[7]), partition(2, 3, [2, 3, 3], [2, 3])],
    "logs": [partition(3, 7, [3], [3])],
}
FALLEN = {**ODD, "logs": [partition(3, 6, [3], [3])]}


def rebalance(
    group_id: str, group_type: str, *, at_s: int, shared: bool = True, end_reason: str = "completed"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A rebalance of gold, and its members: both have partition 1 of the topic, where it is
    `shared`.
    """
    at = NOON + timedelta(seconds=at_s)
    place = {"cluster_id": "id-prod", "cluster": "prod", "group_id": group_id, "began_before": at}
    told = {"updated_at": at, "is_live": False}
    row = {"id": group_id, "group_type": group_type, "source": "log", "generation": 4, "members": 2}
    has = {"a": [0, 1], "b": [1, 2] if shared else [2]}
    members = [
        {
            **place,
            **told,
            "rebalance_id": group_id,
            "member_id": member_id,
            "change": "joined",
            "after": [{"topic": None, "topic_id": "id-orders", "partitions": numbers}],
        }
        for member_id, numbers in has.items()
    ]
    return {**place, **told, **row, "ended_before": at, "end_reason": end_reason}, members


def poll(n: int) -> str:
    return f"{STREAM}/{n:012d}"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    folder = tmp_path_factory.mktemp("validated")
    file = folder / "config.yaml"
    clusters = {alias: {"kafka.bootstrap.servers": "127.0.0.1:1"} for alias in ("prod", "new")}
    file.write_text(yaml.safe_dump({"lake": str(folder / "lake"), "clusters": clusters}))
    return load(str(file))


@pytest.fixture(scope="module")
def good(spark: SparkSession, config: Config) -> list[Finding]:
    """What is found in a lake where all is well, but that cluster `new` has not been polled yet."""
    lake = new_lake(spark, Path(str(config.lake)))
    keep(lake, bronze_rows("prod", [answer(n, 1, GOOD) for n in range(3)]))
    return run.apply(spark, config, NOON + timedelta(seconds=30))


@pytest.fixture(scope="module")
def nothing_new(spark: SparkSession, good: list[Finding], config: Config) -> list[Finding]:
    return run.apply(spark, config, NOON + timedelta(seconds=31))


@pytest.fixture(scope="module")
def planted(spark: SparkSession, nothing_new: list[Finding], config: Config) -> list[Finding]:
    """What is found after a row was planted for each rule, where it can be by odd answers to
    polls.
    """
    answers = [
        answer(3, 2, ODD),
        *(answer(n, 2, FALLEN, late_s=60 if n == 12 else 0) for n in range(4, 13)),
    ]
    holes = {
        **answers[0].topics["orders"],
        "topic_id": "id-holes",
        "partitions": [GOOD["orders"][0]] * 3,
    }
    answers = [replace(each, topics={**each.topics, "holes": holes}) for each in answers]
    rows = bronze_rows("prod", answers)
    for row in rows:
        n, is_header = row["n"], row["record"] == "poll"
        if row.get("topic") == "holes":
            row["partitions"] = [each for each in row["partitions"] if each["partition"] != 1]
        if is_header and n == 3:
            row["topic_count"] += 1
        if is_header and n == 5:
            row["scheduled_at"] = row["sent_at"] = NOON + timedelta(seconds=39)
        if is_header and n == 6:
            row["received_at"] = row["sent_at"] - timedelta(milliseconds=1)
        if is_header and n == 7:
            row["latency_ms"] = 5_000.0
        if is_header and n == 8:
            row["witnesses"] = [
                {
                    "broker_id": 2,
                    "broker": "host2:9092",
                    "sent_at": row["sent_at"],
                    "received_at": row["sent_at"],
                    "is_behind": True,
                    "behind_ms": 5_000,
                    "partitions_behind": 3,
                    "epochs_behind": 4,
                }
            ]
    stored.append(config.lake, bronze.METADATA_POLLS, rows)
    make_history(spark, config.lake)
    columns = "cluster, log_partition, offset, record, read_at, day, next_offset, error, key"
    spark.sql(
        f"""INSERT INTO {config.lake.identifier(bronze.GROUP_LOG)} ({columns}) VALUES
        ('prod', 1, 5, 'read', '{NOON + timedelta(seconds=41)}', '{NOON.date()}', 10, NULL, NULL),
        ('prod', 1, 10, 'record', '{NOON + timedelta(seconds=42)}', '{NOON.date()}', NULL,
          'no such type', X'00'),
        ('prod', 1, 10, 'lost', '{NOON + timedelta(seconds=43)}', '{NOON.date()}', 20, NULL, NULL),
        ('prod', 1, 15, 'read', '{NOON + timedelta(seconds=44)}', '{NOON.date()}',
          25, NULL, NULL)"""
    )
    spark.sql(
        f"""INSERT INTO {config.lake.identifier(TRANSACTION_LOG)} ({columns}, chunk) VALUES
        ('prod', 1, 5, 'read', '{NOON + timedelta(seconds=41)}', '{NOON.date()}',
          10, NULL, NULL, NULL),
        ('prod', 1, 3, 'transactions', '{NOON + timedelta(seconds=41)}', '{NOON.date()}',
          9, NULL, NULL, 0),
        ('prod', 1, 9, 'record', '{NOON + timedelta(seconds=42)}', '{NOON.date()}', NULL,
          'no such version', X'00', NULL),
        ('prod', 1, 10, 'lost', '{NOON + timedelta(seconds=43)}', '{NOON.date()}',
          20, NULL, NULL, NULL),
        ('prod', 1, 14, 'read', '{NOON + timedelta(seconds=44)}', '{NOON.date()}',
          25, NULL, NULL, NULL)"""
    )
    log = config.lake.identifier(bronze.CLUSTER_LOG)
    spark.sql(
        f"""INSERT INTO {log} (cluster, record, offset, read_at, day, went, next_offset, error)
        VALUES
        ('prod', 'span', 1, '{NOON + timedelta(seconds=41)}', '{NOON.date()}', 'read', 10, NULL),
        ('prod', 'record', 7, '{NOON + timedelta(seconds=41)}', '{NOON.date()}', NULL, NULL,
          'no such record'),
        ('prod', 'span', 10, '{NOON + timedelta(seconds=42)}', '{NOON.date()}', 'lost', 20, NULL),
        ('prod', 'span', 15, '{NOON + timedelta(seconds=43)}', '{NOON.date()}', 'read', 25, NULL),
        ('prod', 'span', 25, '{NOON + timedelta(seconds=43.5)}', '{NOON.date()}',
          'truncated', 5, NULL),
        ('prod', 'span', 0, '{NOON + timedelta(seconds=44)}', '{NOON.date()}', 'read', 9, NULL)"""
    )
    told = [
        rebalance("twice", "consumer", at_s=41),
        rebalance("once", "classic", at_s=42, shared=False),
        rebalance("shared", "share", at_s=43),
        rebalance("unknown", "classic", at_s=44, end_reason="unknown"),
        rebalance("not_settled", "classic", at_s=3_000),
    ]
    stored.append(config.lake, groups.REBALANCES, [row for row, _ in told])
    stored.append(
        config.lake, groups.REBALANCE_MEMBERS, [each for _, members in told for each in members]
    )
    brokers = config.lake.identifier(silver.BROKER_SNAPSHOTS)
    names = ", ".join(silver.BROKER_SNAPSHOTS.column_names)
    again = names.replace("first_poll", f"'{poll(4)}' AS first_poll")
    spark.sql(f"INSERT INTO {brokers} ({names}) SELECT {again} FROM {brokers} WHERE broker_id = 1")
    return run.apply(spark, config, NOON + timedelta(hours=1))


def broken(findings: list[Finding]) -> dict[str, list[dict[str, Any]]]:
    return {
        each.rule.name: [json.loads(row) for row in each.violating]
        for each in findings
        if each.violations
    }


def test_nothing_is_found_where_all_is_well(good: list[Finding]) -> None:
    assert broken(good) == {
        "polled_now": [
            {
                "cluster": "new",
                "last_good_at": None,
                "now": "2026-11-01T12:00:30.000Z",
                "interval_ms": None,
                "failed_polls": 0,
                "error_kinds": [],
            }
        ]
    }
    checked = {each.rule.name: each.checked for each in good}
    assert checked == {
        "polled_now": 2,
        **dict.fromkeys(
            ("key_frame_complete", "polls_sent_in_order", "clocks_in_order", "clock_steady"), 3
        ),
        "answered_partitions_complete": 3,
        **dict.fromkeys(("log_read_on", "log_read_in_time", "log_decoded"), 0),
        **{
            f"{log}_{rule}": 0
            for log in ("transaction_log", "cluster_log")
            for rule in ("read_on", "read_in_time", "decoded")
        },
        **dict.fromkeys(
            ("leader_is_replica", "isr_within_replicas", "offline_within_replicas", "epochs_rise"),
            5,
        ),
        "known_partitions_complete": 3,
        **dict.fromkeys(("one_current_row", "intervals_apart"), 3 + 3 + 5 + 1 + 1),
        "partition_of_one_member": 0,
        "polled_without_gaps": 0,
        "brokers_are_current": 0,
    }


def test_what_is_not_new_is_not_looked_at_again(nothing_new: list[Finding]) -> None:
    assert [each.rule.name for each in nothing_new] == ["polled_now"]


def test_every_rule_finds_what_is_planted_for_it(planted: list[Finding]) -> None:
    found = broken(planted)
    assert set(found) == {
        rule.name for _, rules in validity.SUBJECTS.values() for rule in rules
    } | {"polled_now"}
    orders, clicks = (
        {"cluster": "prod", "topic": topic, "first_poll": poll(3)} for topic in ("orders", "clicks")
    )
    assert found["leader_is_replica"] == [
        {**orders, "partition": 0, "leader": 9, "replicas": [1, 2, 3]}
    ]
    assert found["isr_within_replicas"] == [
        {**orders, "partition": 1, "isr": [1, 2, 4], "replicas": [2, 3, 1]}
    ]
    assert found["offline_within_replicas"] == [
        {**clicks, "partition": 0, "offline_replicas": [7], "replicas": [1, 2]}
    ]
    assert [
        (row["topic_id"], row["first_poll"], row["prev_leader_epoch"], row["leader_epoch"])
        for row in found["epochs_rise"]
    ] == [("id-logs", poll(4), 7, 6)]
    hole = {
        "cluster": "prod",
        "topic": "holes",
        "partition_count": 3,
        "partitions": 2,
        "missing": [1],
    }
    assert found["answered_partitions_complete"] == [{**hole, "poll_id": poll(3)}]
    assert found["known_partitions_complete"] == [hole]
    assert found["key_frame_complete"] == [
        {"cluster": "prod", "poll_id": poll(3), "topic_count": 5, "topics": 4}
    ]
    assert [(row["offset"], row["prev_next_offset"]) for row in found["log_read_on"]] == [(15, 20)]
    assert [(row["offset"], row["next_offset"]) for row in found["log_read_in_time"]] == [(10, 20)]
    assert [(row["offset"], row["error"]) for row in found["log_decoded"]] == [(10, "no such type")]
    of_transactions = [
        (found[f"transaction_log_{rule}"][0]["offset"], len(found[f"transaction_log_{rule}"]))
        for rule in ("read_on", "read_in_time", "decoded")
    ]
    assert of_transactions == [(14, 1), (10, 1), (9, 1)]
    assert [(row["offset"], row["prev_next_offset"]) for row in found["cluster_log_read_on"]] == [
        (15, 20)
    ]
    assert [(row["offset"], row["next_offset"]) for row in found["cluster_log_read_in_time"]] == [
        (10, 20),
        (25, 5),
    ]
    assert [(row["offset"], row["error"]) for row in found["cluster_log_decoded"]] == [
        (7, "no such record")
    ]
    assert [row["poll_id"] for row in found["polls_sent_in_order"]] == [poll(5)]
    assert [row["poll_id"] for row in found["clocks_in_order"]] == [poll(6)]
    assert [row["poll_id"] for row in found["clock_steady"]] == [poll(7)]
    assert [
        (row["key"], row["first_poll"], row["current_rows"]) for row in found["one_current_row"]
    ] == [('{"cluster_id":"id-prod","broker_id":1}', first, 2) for first in (poll(0), poll(4))]
    assert [
        (row["table"], row["first_poll"], row["next_first_poll"])
        for row in found["intervals_apart"]
    ] == [("silver.broker_snapshots", poll(0), poll(4))]
    assert [
        (row["group_id"], row["generation"], row["shared"])
        for row in found["partition_of_one_member"]
    ] == [("twice", 4, ["id-orders-1"])]
    assert {each.rule.name: each.checked for each in planted}["partition_of_one_member"] == 2
    assert [
        (row["gap_start"], row["gap_end"], row["reason"]) for row in found["polled_without_gaps"]
    ] == [("2026-11-01T12:01:50.100Z", "2026-11-01T12:03:00.100Z", "not_polled")]
    assert [
        (row["broker_id"], row["partitions_behind"], row["ended_before"])
        for row in found["brokers_are_current"]
    ] == [(2, 3, None)]
    assert [(row["cluster"], row["last_good_at"]) for row in found["polled_now"]] == [
        ("new", None),
        ("prod", "2026-11-01T12:03:00.100Z"),
    ]


@pytest.mark.parametrize(
    ("seconds", "is_found"),
    [(-180, False), (-181, True), (180, False), (181, True), (10 * 365 * 86_400, True)],
)
def test_no_good_poll_is_long_ago_or_still_to_come(
    spark: SparkSession, seconds: int, is_found: bool
) -> None:
    """A clock that was ahead for one poll leaves a time that no later poll comes up to."""
    last = NOON + timedelta(seconds=seconds)
    clusters = spark.createDataFrame(
        [("prod", last, 30_000, 0, [])],
        "cluster string, last_seen_at timestamp, interval_ms bigint, failed_polls bigint, "
        "error_kinds array<string>",
    )
    configured = spark.createDataFrame([("prod", NOON)], "cluster string, now timestamp")
    query, (rule,) = validity.SUBJECTS[validity.NOW]
    rows = spark.sql(query, clusters=clusters, configured=configured).where(rule.broken)
    assert rows.count() == is_found


def test_what_was_found_is_kept_in_the_lake(
    spark: SparkSession, planted: list[Finding], config: Config
) -> None:
    rows = config.lake.read(spark, quality.VALIDATIONS).orderBy("run").collect()
    assert len({row.run for row in rows}) == 3
    last = {
        row.rule: row for row in rows if row.ran_at.astimezone(UTC) == NOON + timedelta(hours=1)
    }
    assert {name: (row.severity, row.violations, row.success) for name, row in last.items()} == {
        each.rule.name: (each.rule.severity, each.violations, False) for each in planted
    }
    assert last["key_frame_complete"].violating == next(
        each.violating for each in planted if each.rule.name == "key_frame_complete"
    )
    (done,) = config.lake.read(spark, internal.STATE).where("history = 'validate'").collect()
    assert done.done_poll == poll(12)


def test_what_was_found_is_there_as_data_docs(planted: list[Finding], config: Config) -> None:
    assert config.docs is not None
    docs = Path(config.docs)
    pages = "\n".join(page.read_text() for page in docs.rglob("*.html"))
    assert (docs / "index.html").is_file()
    for finding in planted:
        assert finding.rule.says in pages
    # What the folder is made in is gone.
    assert [each.name for each in docs.parent.iterdir() if each.name.startswith(".")] == []


def test_a_rule_that_cannot_be_tried_is_an_error_and_leaves_the_docs(
    spark: SparkSession, tmp_path: Path
) -> None:
    from jobs.validation import expectations  # takes seconds, of each process that collects tests

    rows = spark.createDataFrame([(1,)], "x int")
    fine, wrong = (
        Rule(name, "critical", f"x is {name}.", f"{name} > 1", ("x",)) for name in ("x", "y")
    )
    assert [
        each.violations
        for each in expectations.validate([Batch("numbers", rows, [fine])], tmp_path / "docs")
    ] == [0]
    with pytest.raises(
        expectations.ValidationError, match=r"y: cannot be tried on numbers: .*UNRESOLVED_COLUMN"
    ):
        expectations.validate([Batch("numbers", rows, [fine, wrong])], tmp_path / "docs")
    assert [each.name for each in tmp_path.iterdir()] == ["docs"]
    assert "x is x." in "\n".join(page.read_text() for page in (tmp_path / "docs").rglob("*.html"))


@pytest.mark.parametrize(
    ("severities", "status"), [((), 0), (("warning",), 0), (("warning", "critical"), 3)]
)
def test_the_exit_status_is_for_schedulers(
    severities: tuple[validity.Severity, ...],
    status: int,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = Finding("s", Rule("held", "critical", "It holds.", "x", ("x",)), 7, 0, [])
    found = [
        Finding("s", Rule(f"r_{each}", each, "Says.", "x", ("x",)), 7, 12, ['{"x":1}'] * 12)
        for each in severities
    ]
    monkeypatch.setattr(validate, "load", lambda _: config)
    monkeypatch.setattr(validate, "writing_session", lambda *_, **__: None)
    monkeypatch.setattr(validate, "apply", lambda *_: [held, *found])
    assert validate.main(["--config", "x.yaml"]) == status
    printed = capsys.readouterr().out
    assert "held" in printed
    for each in severities:
        assert f"r_{each}: Says.\n  {{" in printed
        assert "and 2 more" in printed


def test_what_goes_wrong_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate.main(["--config", str(tmp_path / "none.yaml")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
