"""The questions of an incident review, asked of a lake whose history is known: two brokers fail within 20 s and come back."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import query
from schemas import gold
from schemas.lake import Lake, read_view
from tests.spark.incident import NOON

PARAMETERS: dict[str, object] = {
    "since": "2026-11-01T12:00:05Z",
    "until": "2026-11-01T12:01:40Z",
    "cluster": None,
    "topic": None,
    "broker": None,
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, incident_lake: Lake) -> Lake:
    query.attach(spark, incident_lake)
    return incident_lake


def ask(spark: SparkSession, name: str, **parameters: object) -> list[dict[str, Any]]:
    """The rows of a named question; times as seconds after noon."""

    def seconds(value: Any) -> Any:
        return (value.astimezone(UTC) - NOON).total_seconds() if isinstance(value, datetime) else value

    rows = spark.sql(query.text_of(name), {**PARAMETERS, **parameters}).collect()
    return [{name: seconds(value) for name, value in row.asDict().items()} for row in rows]


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.mark.usefixtures("lake")
class TestIsr:
    def test_who_left_first(self, spark: SparkSession) -> None:
        rows = ask(spark, "who_left_first")
        assert columns(rows, "began_after", "began_by", "broker_id", "rack", "partitions", "topics", "causes") == [
            (0.0, 10.1, 2, "b", 3, ["clicks", "orders"], ["broker_down"]),
            (10.0, 20.1, 3, "b", 2, ["orders"], ["broker_down"]),
            (30.0, 40.1, 3, "b", 1, ["clicks"], ["lagging"]),
        ]
        assert columns(rows, "shortest_ms_min", "longest_ms_max") == [
            (19_900, 40_100),
            (9_900, 30_100),
            (9_900, 30_100),
        ]
        assert [row["broker_id"] for row in ask(spark, "who_left_first", broker=2)] == [2]
        assert ask(spark, "who_left_first", cluster="other") == []

    def test_time_at_level(self, spark: SparkSession) -> None:
        rows = ask(spark, "time_at_level", topic="orders")
        assert columns(
            rows, "level", "partitions", "episodes", "going_on", "smallest_isr", "seconds_min", "seconds_max"
        ) == [
            ("under_min_isr", 2, 2, 0, 1, 19.8, 60.2),
            ("at_min_isr", 2, 2, 0, 2, 0.0, 30.2),
            ("under_replicated", 2, 2, 0, 1, 39.8, 70.2),
        ]
        (offline,) = (row for row in ask(spark, "time_at_level", topic="logs") if row["level"] == "offline")
        assert (offline["seconds_min"], offline["seconds_max"]) == (9.9, 30.1)

    def test_one_failure_from_offline(self, spark: SparkSession) -> None:
        rows = ask(spark, "one_failure_from_offline")
        assert columns(rows, "topic", "partition", "began_by", "ended_by", "brokers_out") == [
            ("clicks", 0, 10.1, 60.1, [2, 3]),
            ("orders", 0, 10.1, 40.1, [2, 3]),
            ("orders", 1, 10.1, 40.1, [2, 3]),
        ]

    def test_broker_incidents(self, spark: SparkSession) -> None:
        rows = ask(spark, "broker_incidents")
        assert columns(
            rows, "broker_id", "began_after", "began_by", "ended_by", "partitions", "causes", "lowest_level"
        ) == [
            (2, 0.0, 10.1, 40.1, 3, ["broker_down"], "offline"),
            (3, 10.0, 20.1, 60.1, 3, ["broker_down", "lagging"], "under_min_isr"),
        ]
        assert columns(rows, "others_of_its_rack", "others_elsewhere") == [(1, 0), (1, 0)]

    def test_repeat_offenders(self, spark: SparkSession) -> None:
        rows = ask(spark, "repeat_offenders")
        assert columns(
            rows, "broker_id", "incidents", "going_on", "partitions_hit", "seconds_min", "last_began_by"
        ) == [
            (2, 1, 0, 3, 19.9, 10.1),
            (3, 1, 0, 3, 29.9, 20.1),
        ]


@pytest.mark.usefixtures("lake")
class TestLeaders:
    def test_leader_churn(self, spark: SparkSession) -> None:
        rows = ask(spark, "leader_churn")
        counts = (
            "topic",
            "seen",
            "changes_min",
            "changes_max",
            "failover",
            "preferred",
            "offline",
            "recovery",
            "unknown",
        )
        assert columns(rows, *counts) == [
            ("clicks", 3, 3, 3, 1, 0, 1, 1, 0),
            ("orders", 3, 3, 3, 2, 1, 0, 0, 0),
            ("logs", 2, 2, 2, 0, 0, 1, 1, 0),
        ]
        assert columns(rows, "leaderless_s_min", "leaderless_s_max") == [(9.9, 30.1), (0.0, 0.0), (9.9, 30.1)]

    def test_unclean_elections(self, spark: SparkSession) -> None:
        rows = ask(spark, "unclean_elections")
        assert columns(rows, "topic", "partition", "began_by", "prev_leader", "leader", "prev_isr", "unclean") == [
            ("clicks", 0, 40.1, -1, 2, [3], "proven")
        ]

    def test_leader_skew(self, spark: SparkSession) -> None:
        rows = ask(spark, "leader_skew")
        assert columns(rows, "broker_id", "leaders_before", "leaders_after", "preferred_after", "imbalance_worst") == [
            (1, 1, 1, 1, 0.0),
            (2, 2, 2, 2, 1.0),
            (3, 1, 1, 1, 1.0),
        ]

    def test_away_from_preferred(self, spark: SparkSession) -> None:
        rows = ask(spark, "away_from_preferred")
        assert columns(rows, "broker_id", "since", "until", "led_elsewhere_most", "imbalance_worst") == [
            (2, 10.1, 50.1, 2, 1.0),
            (3, 20.1, 40.1, 1, 1.0),
        ]

    def test_timeline(self, spark: SparkSession) -> None:
        rows = ask(spark, "timeline", topic="clicks")
        assert columns(rows, "began_by", "what", "broker_id", "before", "after", "inferred") == [
            (10.1, "isr_left", 2, "{2,3}", "{3}", "broker_down"),
            (10.1, "leader_changed", 3, "2", "3", "failover"),
            (20.1, "leader_changed", -1, "3", "-1", "offline"),
            (40.1, "isr_left", 3, "{3}", "{2}", "lagging"),
            (40.1, "isr_rejoined", 2, "{3}", "{2}", None),
            (40.1, "leader_changed", 2, "-1", "2", "recovery, unclean proven"),
            (60.1, "isr_rejoined", 3, "{2}", "{2,3}", None),
        ]
        brokers = [row for row in ask(spark, "timeline") if row["what"].startswith("broker_")]
        assert columns(brokers, "began_by", "what", "broker_id", "before", "after") == [
            (10.1, "broker_gone", 2, "host2:9092", None),
            (20.1, "broker_gone", 3, "host3:9092", None),
            (40.1, "broker_listed", 2, None, "host2:9092"),
            (40.1, "broker_listed", 3, None, "host3:9092"),
        ]


def test_every_question_is_asked_here() -> None:
    asked = set(re.findall(r'ask\(spark, "(\w+)"', Path(__file__).read_text()))
    assert asked == set(query.names()) - {"health"}, "health is in tests/spark/test_queries.py"


@pytest.fixture
def config(lake: Lake, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: 'localhost:1'}}}}\n")
    return str(file)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_tables_csv_and_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    window = ["--config", config, "--until", "2026-11-01T12:01:40Z", "--since", "95 seconds"]
    assert query.main(["unclean_elections", *window]) == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:3] == ["cluster", "topic", "partition"]
    assert "2026-11-01T12:00:40.100Z" in table[2]
    assert query.main(["unclean_elections", *window, "--format", "json", "--topic", "clicks"]) == 0
    assert json.loads(capsys.readouterr().out)["prev_isr"] == [3]
    assert (
        query.main(
            [
                "SELECT topic, count(*) AS n FROM gold.leader_changes GROUP BY topic ORDER BY topic",
                *window[:2],
                "--format",
                "csv",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out == "topic,n\nclicks,3\nlogs,2\norders,3\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["unclean_election"], "no query is called 'unclean_election'; did you mean unclean_elections?"),
        (["timeline", "--since", "yesterday"], "'yesterday' is neither a time like"),
        (["SELECT nothing FROM gold.leader_changes"], "UNRESOLVED_COLUMN"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_question_that_cannot_be_meant(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert query.main([*arguments, "--config", config]) == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("query: ")
    assert error.count("\n") == 1


def test_the_timeline_is_a_view_with_and_without_a_catalog(spark: SparkSession, lake: Lake) -> None:
    view = read_view(spark, lake, gold.INCIDENT_TIMELINE)
    assert view.columns == spark.table(gold.INCIDENT_TIMELINE.full_name).columns
    assert view.count() == spark.table(gold.INCIDENT_TIMELINE.full_name).count() > 0
