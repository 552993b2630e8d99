"""Racks of brokers over time, in DuckDB."""

from typing import Any

from schemas import silver
from schemas.views import BROKER_RACKS
from tests.support.asof_lakes import lasting
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import at


def racks(listed: list[dict[str, Any]], registered: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    rows = {silver.BROKER_SNAPSHOTS: listed, silver.BROKER_REGISTRATIONS: registered}
    with duckdb_lake(rows, [BROKER_RACKS]) as lake:
        found = ask(lake, "SELECT * FROM silver.broker_racks ORDER BY broker_id, valid_from")
    names = ("broker_id", "rack", "began_after", "valid_from", "valid_to")
    return [tuple(row[name] for name in names) for row in found]


def test_a_broker_that_is_down_keeps_its_rack() -> None:
    listed = [lasting(0, 10, broker_id=1, rack="a"), lasting(30, broker_id=1, rack="a")]
    assert racks(listed, []) == [(1, "a", None, at(0), None)]


def test_a_rack_lasts_until_another_one_is_told_by_whoever_tells() -> None:
    listed = [
        lasting(0, 10, broker_id=1, rack="a"),
        lasting(10, broker_id=1, rack="b", prev_sent_at=at(9)),
        lasting(0, broker_id=2),
    ]
    registered = [lasting(20, broker_id=1, rack="b"), lasting(40, broker_id=1, rack="c")]
    assert racks(listed, registered) == [
        (1, "a", None, at(0), at(10)),
        (1, "b", at(9), at(10), at(40)),
        (1, "c", None, at(40), None),
        (2, None, None, at(0), None),
    ]
