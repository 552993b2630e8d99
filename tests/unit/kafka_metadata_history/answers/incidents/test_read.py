"""Incidents, read from a lake in DuckDB."""

from collections.abc import Iterator

import pytest

from kafka_metadata_history.answers.incidents import advice
from kafka_metadata_history.answers.incidents.read import (
    read_account,
    read_open,
    read_over,
    read_recorded,
    read_window,
)
from kafka_metadata_history.answers.incidents.written import as_text
from kafka_metadata_history.answers.questions import Ask, QueryError
from schemas import gold, incidents, silver
from schemas.in_duckdb import in_duckdb
from schemas.lake import VIEWS
from tests.support.duckdb_lake import Row, duckdb_lake
from tests.support.incident import at
from tests.support.incident_rows import (
    NOW,
    OPEN,
    RESTART,
    UNKNOWN,
    bounds,
    incident,
    incident_rows,
    recorded_rows,
)

OF = {"cluster": "prod", "cluster_id": "id-prod"}


def elected(number: int, seconds: float, controller: int) -> Row:
    times = {"began_after": at(seconds), "began_before": at(seconds)}
    return (
        OF
        | times
        | {
            "id": f"{number}",
            "controller_id": controller,
            "controller_epoch": number,
            "poll": f"s/{number}",
        }
    )


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    rows = incident_rows() | recorded_rows()
    times = bounds((9, 10), (19, 20))
    rows[incidents.INCIDENTS] += [
        incident("merged", "broker_missing", times, end_reason="merged", merged_into=OPEN),
        incident("withdrawn", "broker_missing", times, end_reason="withdrawn"),
    ]
    rows[gold.CONTROLLER_CHANGES] = [
        elected(1, -5_000, 3001),
        elected(2, -550, 3002),
        elected(3, 100, 3003),
    ]
    rows[silver.BROKER_SNAPSHOTS] = [
        row | {"valid_to": at(-10)} if row["broker_id"] == 3 else row
        for row in rows[silver.BROKER_SNAPSHOTS]
    ]
    moved = rows[silver.BROKER_SNAPSHOTS][2] | {"valid_from": at(50), "host": "new"}
    rows[silver.BROKER_SNAPSHOTS].append(moved)
    rows[silver.HISTORY_SOURCES] = [
        OF | {"source": "log", "first_poll": "x", "valid_from": at(-9_000), "valid_to": at(0)}
        | {"last_seen_at": at(0)}
    ]  # fmt: skip
    rows[silver.POLL_GAPS] = [
        OF | {"gap_start": at(begin), "gap_end": at(begin + 30)} for begin in (-580, -5_000, 60)
    ]
    with duckdb_lake(rows, VIEWS) as lake:
        yield lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table()


def test_how_much_is_recorded(ask: Ask) -> None:
    (prod,) = read_recorded(ask, None)
    assert (prod.cluster, prod.until, prod.is_made) == ("prod", at(NOW - 3), True)
    read = (prod.has_controllers_log, prod.has_coordinators_log, prod.has_lag)
    assert read == (False, True, True)
    with pytest.raises(QueryError, match="no such cluster; did you mean prod"):
        read_recorded(ask, "prd")


def test_open_and_over(ask: Ask) -> None:
    assert [each.id for each in read_open(ask, None)] == [OPEN]
    assert [each.id for each in read_over(ask, None)] == [UNKNOWN, RESTART]
    assert read_open(ask, "east") == read_over(ask, "east") == []
    found = read_window(ask, "prod", at(-350), at(0))
    assert [each.id for each in found] == [UNKNOWN, RESTART], "the worst first"
    assert read_window(ask, "prod", at(-9_000), at(-8_000)) == []


def test_an_account_is_as_of_then(ask: Ask) -> None:
    of = read_account(ask, OPEN[:5], None, read_recorded(ask, None))
    assert (of.incident.id, len(of.findings)) == (OPEN, 9)
    assert of.hosts == {1: "kafka1:9092", 2: "kafka2:9092", 3: "kafka3:9092"}
    assert of.controllers == [3002, 3003]
    assert of.gaps == [(at(60), at(90))]
    before = read_account(ask, RESTART, None, read_recorded(ask, None))
    assert (before.controllers, before.gaps) == ([3001, 3002], []), "the log told meanwhile"


def test_an_incident_that_became_another_is_found(ask: Ask) -> None:
    of = read_account(ask, "merged", "prod", read_recorded(ask, "prod"))
    assert advice.commands(of, None)[0] == f"kafka-metadata-history explain {OPEN}"


def test_an_incident_of_a_cluster_that_nobody_records_any_more() -> None:
    with duckdb_lake(incident_rows("gone") | recorded_rows(), VIEWS) as lake:
        of = read_account(
            lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table(),
            OPEN,
            None,
            read_recorded(lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table(), None),
        )
    assert (of.incident.cluster, len(of.findings), of.recorded.until) == ("gone", 9, None)
    assert "\nrecord      nobody records the cluster; no gap inside\n" in as_text(of, at(NOW), None)
