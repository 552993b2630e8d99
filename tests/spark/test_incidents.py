"""Incidents of a lake: the known one of tests/support/incident.py, made of polls in one round or in
many, killed anywhere; and the rows of gold that polls alone do not tell, each as its SQL finds it.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.findings import Findings
from jobs.histories.incidents import Incidents
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from schemas import silver
from schemas.bronze import METADATA_POLLS
from schemas.incidents import EVENTS, INCIDENT_LINKS, INCIDENTS
from schemas.lake import Lake
from schemas.table import Table
from tests.support import stored
from tests.support.bronze_rows import bronze_rows
from tests.support.incident import NOON, answers
from tests.support.incident_findings import OTHER, ROWS
from tests.support.incident_log import log_rows
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.lakes import new_lake
from tests.support.poll_lakes import copied

Row = dict[str, Any]
LATER = NOON + timedelta(hours=1)
TABLES = (INCIDENTS, INCIDENT_LINKS, EVENTS)
OF_ROUNDS = {"id", "incident_id", "from_id", "severity", "updated_at", "reopened", "part"}
"""Columns that say in which round an incident opened, and what it had reached by then."""


def config(lake: Lake, polls_per_round: int = 60) -> Config:
    return Config(lake, "", {}, {}, timedelta(days=7), polls_per_round=polls_per_round)


def polled(lake: Lake, first: int, last: int) -> None:
    """Take some of the polls into bronze."""
    stored.append(lake, METADATA_POLLS, bronze_rows("prod", answers()[first:last]))


def make(spark: SparkSession, lake: Lake, polls_per_round: int = 60) -> None:
    """Make history of all polls, and incidents after each round."""
    of_lake = config(lake, polls_per_round)
    polls, incidents = Engine(spark, of_lake, Polls()), Engine(spark, of_lake, Incidents())
    while polls.round(LATER):
        while incidents.round(LATER):
            pass


def finish(spark: SparkSession, lake: Lake) -> None:
    """Make incidents of the history that is there."""
    engine = Engine(spark, config(lake), Incidents())
    while engine.round(LATER):
        pass


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with incidents by the first poll, when nothing was wrong."""
    lake = new_lake(spark, tmp_path_factory.mktemp("begun"))
    polled(lake, 0, 1)
    make(spark, lake)
    return lake


@pytest.fixture(scope="module")
def due(spark: SparkSession, begun: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same with history of all polls, of which no incidents are made yet."""
    lake = copied(begun, tmp_path_factory.mktemp("due"))
    polled(lake, 1, len(answers()))
    engine = Engine(spark, config(lake), Polls())
    while engine.round(LATER):
        pass
    return lake


@pytest.fixture(scope="module")
def whole(spark: SparkSession, due: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same with its incidents, made in one round."""
    lake = copied(due, tmp_path_factory.mktemp("whole"))
    finish(spark, lake)
    return lake


def texts(lake: Lake, table: Table, without: set[str] = frozenset()) -> list[str]:  # type: ignore[assignment]
    rows = stored.rows_of(lake, table)
    return stored.as_text(
        [{name: row[name] for name in row if name not in without} for row in rows]
    )


def test_two_brokers_of_a_rack_are_one_incident_with_all_that_followed(
    begun: Lake, whole: Lake
) -> None:
    assert not any(stored.rows_of(begun, table) for table in TABLES)
    (row,) = stored.rows_of(whole, INCIDENTS)
    assert (row["kind"], row["class"], row["cause"], row["cause_of"]) == (
        *("broker_missing", "incident"),
        *("rack", "b"),
    )
    assert (row["brokers"], row["worst_level"], row["steps"]) == ([2, 3], "offline", 2)
    assert row["ended_before"] is None, "two quiet minutes were not observed"
    links = {each["id"]: each for each in stored.rows_of(whole, INCIDENT_LINKS)}
    assert {each["incident_id"] for each in links.values()} == {row["id"]}

    def tied(each: Row) -> tuple[Any, ...]:
        first = links.get(each["from_id"], {})
        return (each["kind"], each["broker_id"], each["rule"], first.get("kind"))

    found = {tied(each) for each in links.values()}
    assert found >= {
        ("broker_missing", 2, None, None),
        ("broker_missing", 3, "same_rack", "broker_missing"),
        ("isr_left", 2, "missing_isr", "broker_missing"),
        ("isr_left", 3, "missing_isr", "broker_missing"),
        ("stale_broker", 2, "stale_missing", "broker_missing"),
        ("leader_changed", 2, "missing_leader", "broker_missing"),
        ("coordinator_moved", 2, "leader_coordinator", "leader_changed"),
    }
    chain = {(kind, rule, first) for kind, _, rule, first in found}
    assert ("under_replicated", "isr_level", "isr_left") in chain
    assert ("unclean_election", "offline_election", "partition_offline") in chain
    (opened,) = stored.rows_of(whole, EVENTS)
    assert (opened["event"], opened["incident_id"]) == ("opened", row["id"])


def test_however_it_is_cut_into_rounds_the_incident_is_the_same(
    spark: SparkSession, begun: Lake, whole: Lake, tmp_path: Path
) -> None:
    lake = copied(begun, tmp_path)
    polled(lake, 1, len(answers()))
    make(spark, lake, polls_per_round=2)
    assert len(stored.rounds_of(lake, INCIDENTS)) > 1
    for table in (INCIDENTS, INCIDENT_LINKS):
        assert texts(lake, table, OF_ROUNDS) == texts(whole, table, OF_ROUNDS), table.full_name
    told = stored.rows_of(lake, EVENTS)
    assert len({row["id"] for row in told}) == len(told)
    assert [row["event"] for row in told].count("opened") == 1


KILLED = {
    "planned": lambda: killed_at("plan", before=False),
    "after a commit": lambda: killed_after(1),
    "after two commits": lambda: killed_after(2),
    "not noted": lambda: killed_at("done", before=True),
}


@pytest.mark.parametrize("name", KILLED)
def test_a_killed_round_is_made_again_with_the_same_rows_and_no_event_twice(
    spark: SparkSession, due: Lake, whole: Lake, tmp_path: Path, name: str
) -> None:
    lake = copied(due, tmp_path)
    engine = Engine(spark, config(lake), Incidents())
    with KILLED[name](), pytest.raises(KilledError):
        engine.round(LATER)
    assert len(stored.rows_of(lake, EVENTS)) <= 1
    finish(spark, lake)
    for table in TABLES:
        assert texts(lake, table) == texts(whole, table), table.full_name
        assert len(stored.rounds_of(lake, table)) == len(set(stored.rounds_of(lake, table)))


# --- what polls of brokers alone do not tell ---


@pytest.fixture(scope="module")
def found(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What the SQL makes of these rows, and of the controllers' log of the known incident."""
    lake = new_lake(spark, tmp_path_factory.mktemp("findings"))
    of_log = {table: rows for table, rows in log_rows().items() if table is not silver.CONFIGS}
    for table, rows in {**of_log, **ROWS}.items():
        # Of a cluster whose controllers' log is read, polls of the quorum tell no elections.
        stored.append(
            lake, table, [row | OTHER for row in rows] if table is silver.QUORUM else rows
        )
    context = Engine(spark, config(lake), Incidents()).context()
    findings = Findings()
    rows = findings.rows(context, findings.versions(context, ()), NOON)
    return [row for row in rows.to_pylist() if row["cluster"] in {"prod", "other"}]


def of_kind(found: list[Row], kind: str, *names: str) -> list[tuple[Any, ...]]:
    """These columns of findings of a kind, times as seconds after noon."""

    def told(value: Any) -> Any:
        is_time = isinstance(value, datetime)
        return (value - NOON).total_seconds() if is_time else value

    rows = [tuple(told(row[name]) for name in names) for row in found if row["kind"] == kind]
    return sorted(rows, key=str)


TIMES = ("began_after", "began_before", "ended_after", "ended_before")


def test_registrations_that_are_fenced_are_brokers_that_are_missing(found: list[Row]) -> None:
    """A broker that registered for the first time, and is fenced, is none."""
    names = ("broker_id", "rack", "source", "is_controlled", *TIMES)
    assert of_kind(found, "broker_missing", *names) == [
        (2, "b", "log", False, 9, 9, 38, 38),
        (3, "b", "log", None, 35, 35, 36.25, 36.25),
        (3, "b", "log", True, 17.5, 17.5, 35, 35),
    ]


def test_a_quorum_without_a_controller_is_lost(found: list[Row]) -> None:
    names = ("cluster", "source", *TIMES)
    assert of_kind(found, "quorum_lost", *names) == [("other", "polls", 8, 10, 30, 30)]


def test_elections_are_of_the_log_or_else_of_polls(found: list[Row]) -> None:
    """An election after records were lost is in the place of nobody."""
    names = ("cluster", "source", "broker_id", "number", "began_after", "began_before")
    assert of_kind(found, "controller_elected", *names) == [
        ("other", "polls", None, 2, 28, 30),
        ("prod", "log", 3001, 1, 62, 62),
    ]


def test_an_unclean_election_is_about_who_was_lost(found: list[Row]) -> None:
    names = ("broker_id", "brokers", "began_before")
    assert of_kind(found, "unclean_election", *names) == [(None, [2], 20), (None, [3], 35)]
    names = ("broker_id", "cause", "began_before")
    assert of_kind(found, "leader_changed", *names) == [(2, "offline", 10), (3, "offline", 30)]


def test_a_reassignment_is_about_all_its_brokers(found: list[Row]) -> None:
    names = ("brokers", "topic", "partitions", "source", *TIMES)
    assert of_kind(found, "reassignment", *names) == [([1, 3], "logs", 1, "log", 63, 63, 72, 72)]


def test_min_isr_that_was_changed_is_a_cause_and_one_of_a_new_topic_is_none(
    found: list[Row],
) -> None:
    names = ("topic", "source", *TIMES)
    assert of_kind(found, "config_changed", *names) == [
        ("logs", "log", 41, 41, 41, 41),
        ("orders", "log", 40, 40, 40, 40),
        ("orders", "polls", 18, 20, 18, 20),
    ]


def test_a_rebalance_has_the_coordinator_that_its_group_lost(found: list[Row]) -> None:
    assert of_kind(found, "coordinator_moved", "broker_id", "partitions", "source") == [
        (2, 1, "log")
    ]
    names = ("group_id", "broker_id", "topic", "source", *TIMES)
    assert of_kind(found, "rebalance", *names) == [
        ("audit", None, "orders", "log", 50, 50, None, None),
        ("billing", 2, "orders", "log", 50, 50, 52, 52),
        ("shop", None, None, "polls", 61, 62, None, None),
    ]


def test_the_cost_of_a_rebalance_is_a_pause_and_lag(found: list[Row]) -> None:
    names = ("group_id", "topic", "partitions", "number", *TIMES)
    assert of_kind(found, "pause", *names) == [("billing", "orders", 2, 9_000, 48, 50, 49, 59)]
    (of_cost, *of_polls) = of_kind(found, "lag", *names)
    assert of_cost == ("billing", "orders", 1, 70, 50, 60, 60, 70)
    assert of_polls == [
        ("billing", "orders", 1, 900, 100, 100, 150, 160),
        ("billing", "orders", 1, 900, 160, 160, None, None),
    ]


def test_a_group_of_which_a_partition_stopped_has_stopped(found: list[Row]) -> None:
    names = ("group_id", "cause", *TIMES)
    assert of_kind(found, "group_stopped", *names) == [("billing", "ERROR", 160, 160, None, None)]


def test_what_is_worth_an_event_beside_incidents(found: list[Row]) -> None:
    names = ("cluster", "broker_id", "topic", "partitions", *TIMES)
    assert of_kind(found, "shared_rack", *names) == [
        ("other", None, "clicks", 2, None, 12, None, None)
    ]
    assert of_kind(found, "one_in_sync", *names) == [("other", 2, "orders", 1, 28, 30, 50, 50)]
    assert of_kind(found, "lone_setting", *names) == [
        ("prod", 3, "num.io.threads", 0, 44, 44, None, None)
    ]
    name = "leader.replication.throttled.rate"
    assert of_kind(found, "throttle_left", *names) == [("prod", None, name, 0, 46, 46, None, None)]
    names = ("group_id", "source", "number", *TIMES)
    assert of_kind(found, "crash_loop", *names) == [("billing", "log", 3, 12, 12, 40, 40)]
