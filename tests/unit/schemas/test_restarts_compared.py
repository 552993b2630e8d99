"""Rolling restarts beside the five before: the question, in DuckDB."""

from collections.abc import Sequence
from typing import Any

from kafka_metadata_history.answers.questions import text_of
from schemas import gold
from tests.support.duckdb_lake import asking
from tests.support.incident import CLUSTER
from tests.support.sums_of_time import at, observed, window

Row = dict[str, Any]
HOUR = 3600


def restart(number: int, seconds: float, *, is_exact: bool = True, cluster: str = "") -> list[Row]:
    """The `number`th of a cluster: broker 1 is out from its begin on, broker 2 ten seconds later,
    both until its end. Begin and end are known within two seconds.
    """
    begin = number * HOUR
    of = {"cluster_id": f"id-{cluster}", "cluster": cluster} if cluster else CLUSTER
    return [
        of
        | {"id": f"{cluster} {number}, {broker}", "broker_id": broker, "causes": ["broker_down"]}
        | {
            "began_after": at(begin + late - 2) if is_exact else None,
            "began_before": at(begin + late),
            "ended_after": at(begin + seconds),
            "ended_before": at(begin + seconds + 2),
        }
        for broker, late in ((1, 0), (2, 10))
    ]


def compared(*restarts: Sequence[Row], **asked: object) -> list[Row]:
    rows = observed([], 10 * HOUR) | {gold.BROKER_INCIDENTS: [row for of in restarts for row in of]}
    with asking(rows) as ask:
        return ask(text_of("restarts_compared"), window(10 * HOUR) | asked)


def usual(rows: Sequence[Row]) -> list[tuple[Any, Any]]:
    return [(row["usual_seconds_min"], row["usual_seconds_max"]) for row in rows]


def test_the_median_of_those_before() -> None:
    found = compared(*(restart(n, seconds) for n, seconds in enumerate((100, 300, 200, 400), 1)))
    assert [(row["seconds_min"], row["seconds_max"]) for row in found] == [
        (100, 104),
        (300, 304),
        (200, 204),
        (400, 404),
    ]
    assert usual(found) == [(None, None), (100, 104), (200, 204), (200, 204)]


def test_seconds_out_of_isrs_are_those_of_all_brokers() -> None:
    first, second = compared(restart(1, 100), restart(2, 50))
    assert (first["out_s_min"], first["out_s_max"]) == (100 + 90, 104 + 94)
    assert (second["out_s_min"], second["out_s_max"]) == (50 + 40, 54 + 44)
    assert (second["usual_out_s_min"], second["usual_out_s_max"]) == (190, 198)


def test_five_count() -> None:
    times = (1000, 110, 120, 130, 140, 150, 100)
    found = compared(*(restart(n, seconds) for n, seconds in enumerate(times, 1)))
    assert usual(found)[5:] == [(130, 134), (130, 134)]
    assert usual(found)[4] == (125, 129), "four before"


def test_those_before_the_window_count() -> None:
    (found,) = compared(restart(1, 100), restart(2, 50), since=str(at(2 * HOUR)))
    assert usual([found]) == [(100, 104)]


def test_one_whose_begin_nobody_saw_makes_no_most() -> None:
    others = (restart(n, seconds) for n, seconds in enumerate((50, 60, 70), 2))
    found = compared(restart(1, 100, is_exact=False), *others)
    assert found[0]["seconds_max"] is None
    assert usual(found) == [(None, None), (100, None), (75, None), (60, None)]


def test_clusters_lie_apart() -> None:
    found = compared(restart(1, 100), restart(2, 50, cluster="other"), restart(3, 60))
    assert usual(found) == [(None, None), (None, None), (100, 104)]
    assert len(compared(restart(1, 100), restart(2, 50, cluster="other"), cluster="other")) == 1


def test_a_broker_narrows_what_is_shown_alone() -> None:
    more = [{**row, "broker_id": row["broker_id"] + 2} for row in restart(2, 50)]
    (found,) = compared(restart(1, 100), more, broker=3)
    assert (found["brokers"], usual([found])) == ([3, 4], [(100, 104)])
