"""Incidents as annotations of dashboards."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from kafka_metadata_history.answers.incidents.annotations import MOST, Annotation, annotations
from kafka_metadata_history.answers.questions import Ask
from schemas import incidents
from schemas.in_duckdb import in_duckdb
from schemas.lake import VIEWS
from tests.support.duckdb_lake import duckdb_lake
from tests.support.incident import NOON, at
from tests.support.incident_rows import bounds, incident, incident_rows

Row = dict[str, Any]
NOON_MS = round(NOON.timestamp() * 1000)
OTHERS = [
    incident("a" * 12, "quorum_lost", bounds((1, 2), (3, 4)), cluster='te"st\n<b>'),
    incident("b" * 12, "quorum_lost", bounds((1, 2), (3, 4)), end_reason="withdrawn"),
    incident("c" * 12, "quorum_lost", bounds((1, 2), (3, 4)), end_reason="merged"),
]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    rows = incident_rows()
    with duckdb_lake(
        {**rows, incidents.INCIDENTS: [*rows[incidents.INCIDENTS], *OTHERS]}, VIEWS
    ) as lake:
        yield lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table()


def found(ask: Ask, since: float, until: float, cluster: str | None = None) -> list[Annotation]:
    begin, end = at(since), at(until)
    assert begin is not None
    assert end is not None
    return annotations(ask, begin, end, cluster)


def test_incidents_are_in_order_of_time_with_their_worst_bounds(ask: Ask) -> None:
    times = [(each.time - NOON_MS, each.timeEnd) for each in found(ask, -1000, 1000)]
    assert times == [
        (-599_000, NOON_MS - 300_000),
        (-100_000, NOON_MS - 80_000),
        (2_000, NOON_MS + 4_000),
        (10_000, None),
    ]


def test_an_annotation_says_what_and_who_was_hurt(ask: Ask) -> None:
    (lasting,) = found(ask, 5, 1000, "prod")
    assert lasting.title == "Broker 3 has been missing"
    assert lasting.text.startswith("prod: 2 partitions offline, 12 under min ISR; group shop; at ")
    assert lasting.text.endswith("brokers of rack b were lost together (a3f0c1d2e4b5)")
    assert lasting.tags == ("prod", "page", "broker_missing", "incident")


def test_those_outside_of_the_window_or_of_other_clusters_are_left_out(ask: Ask) -> None:
    assert found(ask, -2000, -1000) == []
    assert len(found(ask, -1000, -200)) == 1
    assert [each.tags[0] for each in found(ask, 0, 3, 'te"st\n<b>')] == ['te"st\n<b>']


def test_each_is_a_json_object(ask: Ask) -> None:
    for each in json.loads(json.dumps([asdict(one) for one in found(ask, -1000, 1000)])):
        assert set(each) == {"time", "timeEnd", "title", "text", "tags"}
        assert type(each["time"]) is int


def test_the_worst_are_returned_where_there_are_too_many() -> None:
    many = [incident(f"{n:012}", "stale_broker", bounds((1, 2), (3, 4))) for n in range(MOST + 5)]
    worst = incident("f" * 12, "quorum_lost", bounds((1, 2), (3, 4)), severity="page")
    with duckdb_lake({incidents.INCIDENTS: [*many, worst]}, VIEWS) as lake:
        rows = annotations(
            lambda sql: lake.sql(in_duckdb(sql)).to_arrow_table(),
            NOON,
            datetime(2027, 1, 1, tzinfo=UTC),
        )
    assert len(rows) == MOST
    assert sum("page" in each.tags for each in rows) == 1
