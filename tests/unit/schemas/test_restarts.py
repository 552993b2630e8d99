"""Which brokers were down one after the other: the view gold.restarts, in DuckDB."""

from collections.abc import Sequence

import pytest

from schemas import gold, views
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.incident import CLUSTER, at

Down = tuple[int, float, float | None]
"""A broker, and the minutes at which it was lost and back."""


def restarts(*downs: Down, causes: Sequence[str] = ("broker_down",)) -> list[list[tuple[int, int]]]:
    """Of each restart its steps, and their brokers."""
    rows = [
        CLUSTER
        | {"id": f"{broker} at {lost}", "broker_id": broker, "causes": [*causes]}
        | {"began_before": at(60 * lost), "ended_before": None if back is None else at(60 * back)}
        for broker, lost, back in downs
    ]
    elsewhere = [
        row | {"cluster": "other", "cluster_id": "id-other", "began_before": at(60)}
        for row in rows[:1]
    ]
    with duckdb_lake({gold.BROKER_INCIDENTS: rows + elsewhere}, (views.RESTARTS,)) as lake:
        found = ask(lake, "SELECT * FROM gold.restarts ORDER BY began_before, broker_id")
    of: dict[str, list[tuple[int, int]]] = {}
    for row in found:
        of.setdefault(row["restart_id"], []).append((row["step"], row["broker_id"]))
    return [*of.values()]


@pytest.mark.parametrize(
    ("downs", "brokers"),
    [
        ([(1, 0, 2), (2, 10, 12), (3, 20, 22)], [[1, 2, 3]]),
        ([(3, 20, 22), (1, 0, 2), (2, 10, 12)], [[1, 2, 3]]),
        # The next one: 15 minutes after the one before was back, and a bit more.
        ([(1, 0, 2), (2, 17, 18), (3, 33.1, 34)], [[1, 2]]),
        ([(1, 0, 2), (2, 10, 12), (1, 60, 62), (2, 70, 72)], [[1, 2], [1, 2]]),
        # One that takes an hour to be back, and the next one shortly before that.
        ([(1, 0, 60), (2, 50, 61)], [[1, 2]]),
        # One that does not come back, and others of a day later.
        ([(1, 0, None), (2, 1440, 1442)], []),
        ([(1, 0, None), (2, 10, 12)], [[1, 2]]),
        # One that is gone for days, and others meanwhile.
        ([(1, 0, 3000), (2, 1440, 1442), (3, 1450, 1452)], [[2, 3]]),
        ([(1, 0, 2)], []),
        ([(1, 0, 2), (1, 5, 6)], []),
        ([(1, 0, 2), (2, 5, 6), (1, 8, 9)], [[1, 2, 1]]),
        # All of a rack at once.
        ([(1, 0, 2), (2, 0, 2)], []),
        ([(1, 0, 2), (2, 0, 2), (3, 5, 6)], [[1, 2, 3]]),
    ],
)
def test_brokers_that_were_down_one_after_the_other(
    downs: list[Down], brokers: list[list[int]]
) -> None:
    assert restarts(*downs) == [[*enumerate(of, 1)] for of in brokers]


def test_a_broker_that_lagged_was_not_down() -> None:
    downs: list[Down] = [(1, 0, 2), (2, 10, 12)]
    assert restarts(*downs, causes=["lagging"]) == restarts(*downs, causes=[]) == []
    assert restarts(*downs, causes=["broker_down", "lagging"]) == [[(1, 1), (2, 2)]]
