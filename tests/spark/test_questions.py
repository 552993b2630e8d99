"""Spark answers the questions of an incident review, and jobs/query.py asks them. That the answers
are right is in tests/unit/kafka_metadata_history/answers/test_incident.py.
"""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from jobs import query
from kafka_metadata_history.answers.asof import show
from kafka_metadata_history.answers.asof.diff import (
    Difference,
    between_times,
    differences,
    hidden,
)
from kafka_metadata_history.answers.asof.read import AsOf, reaches, time_of
from kafka_metadata_history.answers.incidents.following import Following
from kafka_metadata_history.answers.incidents.read import (
    read_account,
    read_open,
    read_over,
    read_recorded,
    read_window,
)
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import Ask as AskArrow
from kafka_metadata_history.answers.questions import names, text_of
from kafka_metadata_history.answers.whatif.read import read_record
from kafka_metadata_history.command import exit_status
from kafka_metadata_history.opened import asking, without_spark
from kafka_metadata_history.report.report_data import read_report_data
from schemas import views
from schemas.in_spark import attach, read_view
from schemas.lake import Lake
from tests.support import (
    held_up_questions,
    incident_controllers,
    incident_groups_questions,
    incident_questions,
    incident_rows_questions,
    incident_storage_questions,
    transaction_questions,
)
from tests.support.incident import NOON
from tests.support.incident_questions import PARAMETERS, Ask, in_seconds
from tests.support.incident_rows import OPEN, RESTART, UNKNOWN


@pytest.fixture(scope="module")
def lake(spark: SparkSession, incident_lake: Lake) -> Lake:
    attach(spark, incident_lake)
    return incident_lake


@pytest.fixture(scope="module")
def ask(spark: SparkSession, lake: Lake) -> Ask:
    def asked(name: str, **parameters: object) -> list[incident_questions.Row]:
        rows = spark.sql(text_of(name), {**PARAMETERS, **parameters}).collect()
        return [in_seconds(row.asDict(recursive=True)) for row in rows]

    return asked


@pytest.mark.soak
class TestIsr(incident_questions.Isr):
    pass


@pytest.mark.soak
class TestLog(incident_questions.Log):
    pass


@pytest.mark.soak
class TestControllers(incident_controllers.Controllers):
    pass


@pytest.mark.soak
class TestLeaders(incident_questions.Leaders):
    pass


@pytest.mark.soak
class TestReviews(incident_questions.Reviews):
    pass


@pytest.mark.soak
class TestIncidents(incident_rows_questions.Incidents):
    pass


@pytest.mark.soak
class TestStorage(incident_storage_questions.Storage):
    pass


@pytest.mark.soak
class TestGroups(incident_groups_questions.Groups):
    pass


@pytest.mark.soak
class TestHeldUp(held_up_questions.HeldUp):
    pass


@pytest.mark.soak
class TestTransactions(transaction_questions.Transactions):
    pass


def test_spark_takes_each_named_query(spark: SparkSession, lake: Lake) -> None:
    for name in names():
        assert spark.sql(with_values(text_of(name), PARAMETERS)).columns


ANSWERED = {"crash_loops", "timeline"}
"""Between them they have lambdas, arrays, windows and unions. Long runs ask all."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ANSWERED else pytest.mark.soak)
        for name in sorted(set(names()) - {"health"})
    ],
)
def test_spark_answers_as_duckdb_does(ask: Ask, lake: Lake, name: str) -> None:
    """Of the same lake. But for health, which is in tests/spark/test_queries.py."""
    found = ask(name)
    assert found
    other = without_spark(lake)(with_values(text_of(name), PARAMETERS)).to_pylist(
        maps_as_pydicts="strict"
    )
    assert as_text(found) == as_text([in_seconds(row) for row in other])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "time_at_level" else pytest.mark.soak)
        for name in names()
        if "not_observed_s" in text_of(name)
    ],
)
def test_spark_leaves_out_what_nobody_observed_as_duckdb_does(
    ask: Ask, lake: Lake, name: str
) -> None:
    """Ten minutes after the last poll. That DuckDB is right is in
    tests/unit/schemas/test_sums_of_time.py.
    """
    later = {"until": "2026-11-01T12:12:00Z"}
    found = ask(name, **later)
    other = without_spark(lake)(with_values(text_of(name), {**PARAMETERS, **later})).to_pylist(
        maps_as_pydicts="strict"
    )
    assert found
    assert as_text(found) == as_text([in_seconds(row) for row in other])


@pytest.mark.soak
def test_spark_gives_the_report_what_duckdb_does(spark: SparkSession, lake: Lake) -> None:
    window = (PARAMETERS["since"], PARAMETERS["until"], {}, datetime.now(UTC))
    found, other = (
        read_report_data(ask, *window) for ask in (asking(spark, lake), without_spark(lake))
    )
    assert found.rows > 50
    assert [section.missing for section in found.sections] == [None] * len(found.sections)
    assert found == other


@pytest.mark.parametrize("at", [None, "2026-11-01T12:00:15Z"])
def test_spark_reads_the_state_of_a_cluster_as_duckdb_does(
    spark: SparkSession, lake: Lake, at: str | None
) -> None:
    found, other = (
        read_record(ask, "prod", at, datetime.now(UTC), {})
        for ask in (asking(spark, lake), without_spark(lake))
    )
    assert len(found.cluster.partitions) == 5
    assert found == other


def test_spark_reads_incidents_as_duckdb_does(spark: SparkSession, lake: Lake) -> None:
    """What explain, events and the report read."""
    found, other = (
        (
            read_recorded(ask, None),
            read_open(ask, "east"),
            read_over(ask, None),
            read_window(ask, "east", NOON - timedelta(hours=1), NOON),
            [
                read_account(ask, id_, None, read_recorded(ask, None))
                for id_ in (OPEN, RESTART, UNKNOWN)
            ],
            Following(NOON - timedelta(hours=1), None).new(ask),
        )
        for ask in (asking(spark, lake), without_spark(lake))
    )
    assert [len(each) for each in found] == [1, 1, 2, 2, 3, 3]
    assert found == other


@pytest.mark.parametrize("at", [None, "2026-11-01T12:00:25Z"])
def test_spark_shows_the_state_as_duckdb_does(
    spark: SparkSession, lake: Lake, at: str | None
) -> None:
    now = datetime.now(UTC)
    found, other = (
        [
            of(AsOf.of(ask, reaches(ask, None), time_of(at, now)))
            for of in (
                partial(show.clusters, now=now),
                partial(show.topic, name="orders"),
                partial(show.broker, broker_id=2),
                partial(show.group, group_id="billing"),
            )
        ]
        for ask in (asking(spark, lake), without_spark(lake))
    )
    assert all(len(rows) for rows, _ in found)
    assert found == other


@pytest.mark.parametrize("until", [None, "2026-11-01T12:00:25Z"])
def test_spark_tells_two_states_apart_as_duckdb_does(
    spark: SparkSession, lake: Lake, until: str | None
) -> None:
    def told(ask: AskArrow) -> tuple[list[Difference], list[str]]:
        times = (time_of(at, datetime.now(UTC)) for at in ("2026-11-01T12:00:05Z", until))
        before, after = (AsOf.of(ask, reaches(ask, None), each) for each in times)
        rows, lines = between_times(before, after)
        return differences(rows, hidden(before), hidden(after)), lines

    found, other = map(told, (asking(spark, lake), without_spark(lake)))
    assert len(found[0]) >= 6
    assert found == other


def as_text(rows: list[incident_questions.Row]) -> list[str]:
    """Rows that can be compared: numbers of all types alike, and no array where it is empty."""

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [plain(each) for each in value] or None
        return round(float(value), 6) if isinstance(value, int | float | Decimal) else value

    return [
        json.dumps({name: plain(value) for name, value in row.items()}, default=str) for row in rows
    ]


@pytest.fixture
def config(lake: Lake, tmp_path: Path) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"lake: {lake}\nclusters: {{prod: {{kafka.bootstrap.servers: 'localhost:1'}}}}\n"
    )
    return str(file)


@pytest.mark.usefixtures("spark")
def test_the_command_prints_tables_csv_and_json(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    window = ["--config", config, "--until", "2026-11-01T12:01:40Z", "--since", "95 seconds"]
    assert query.main(["unclean_elections", *window]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("query: 1 row, by Spark\nquery: ")
    table = printed.out.splitlines()
    assert table[0].split()[:4] == ["cluster", "topic-partition", "began", "2026-11-01"]
    assert " 12:00:30 to 12:00:40 " in table[2]
    assert query.main(["unclean_elections", *window, "--format", "json", "--topic", "clicks"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["prev_isr"] == [3]
    assert printed.err == "", "spark-submit would put it between the rows"
    assert (
        query.main(
            [
                (
                    "SELECT topic, count(*) AS n FROM gold.leader_changes GROUP BY topic ORDER BY "
                    "topic"
                ),
                *window[:2],
                "--format",
                "csv",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out == "topic,n\n__consumer_offsets,2\nclicks,3\nlogs,2\norders,3\n"


@pytest.mark.usefixtures("spark")
def test_spark_answers_of_a_folder_where_it_is_wanted(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
    )  # the user's Spark: that of the tests
    assert (
        exit_status(
            ["query", "SELECT hash('a') AS x", "--spark", "--config", config, "--format", "json"]
        )
        == 0
    )
    printed = capsys.readouterr()
    assert (json.loads(printed.out), printed.err.splitlines()[0]) == (
        {"x": 1485273170},
        "1 row, by Spark",
    )


@pytest.mark.soak
@pytest.mark.usefixtures("spark")
def test_a_lake_in_a_catalog_is_asked_as_one_in_a_folder(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Spark, and without a word about it on the command line."""
    monkeypatch.setenv(
        "PYSPARK_SUBMIT_ARGS", "pyspark-shell"
    )  # the user's Spark: that of the tests
    other = tmp_path / "catalog.yaml"
    folder = yaml.safe_load(Path(config).read_text())
    checkpoints = str(tmp_path / "checkpoints")
    other.write_text(
        yaml.safe_dump(folder | {"lake": {"catalog": "spark_catalog"}, "checkpoints": checkpoints})
    )
    window = ["--until", "2026-11-01T12:01:40Z", "--since", "95 seconds"]
    for name in ("overview", "timeline"):
        answers = []
        for of, engine in ((config, "DuckDB"), (str(other), "Spark")):
            assert exit_status(["query", name, "--config", of, *window, "--format", "json"]) == 0
            printed = capsys.readouterr()
            assert f" rows, by {engine}" in printed.err
            answers.append([json.loads(line) for line in printed.out.splitlines()])
        assert len(answers[0]) > 3
        assert as_text(answers[0]) == as_text(answers[1])
    page = tmp_path / "report.html"
    assert exit_status(["report", "--config", str(other), *window, "--out", str(page)]) == 0
    assert "clicks" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (
            ["unclean_election"],
            2,
            "no query is called 'unclean_election'; did you mean unclean_elections?",
        ),
        (["timeline", "--since", "yesterday"], 2, "'yesterday' is neither a time like"),
        (
            ["timeline", "--topic", "order"],
            2,
            "--topic order: history knows no such topic; did you mean orders?",
        ),
        (["SELECT nothing FROM gold.leader_changes"], 1, "UNRESOLVED_COLUMN"),
        (["DELETE FROM gold.leader_changes"], 2, "neither a name nor a query (SELECT)"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_a_question_that_cannot_be_meant(
    config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, says: str
) -> None:
    assert query.main([*arguments, "--config", config]) == status
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("query: ")
    assert error.count("\n") == 1


@pytest.mark.soak
def test_the_timeline_is_a_view_with_and_without_a_catalog(spark: SparkSession, lake: Lake) -> None:
    view = read_view(spark, lake, views.INCIDENT_TIMELINE)
    assert view.columns == spark.table(views.INCIDENT_TIMELINE.full_name).columns
    assert view.count() == spark.table(views.INCIDENT_TIMELINE.full_name).count() > 0
