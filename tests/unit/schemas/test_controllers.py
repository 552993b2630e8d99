"""The active controllers, of the controllers' log and of polls, and what incidents find in them."""

from datetime import datetime
from typing import Any

from jobs.histories.findings import _SQL
from jobs.rules.incidents.finding import QUORUM_FLAPPING, finding_of, flapping
from schemas import gold, silver
from schemas.in_duckdb import in_duckdb
from schemas.incidents import INCIDENT_LINKS
from schemas.lake import VIEWS, resolved
from tests.support.duckdb_lake import Row, ask, duckdb_lake
from tests.support.incident import NOON
from tests.support.timeline_rows import CLUSTER, elected, log_id, polled

TERM = ("controller_id", "controller_epoch", "began_after", "began_before")
ENDED = ("ended_after", "ended_before", "end_reason")


def in_seconds(value: Any) -> Any:
    return (value - NOON).total_seconds() if isinstance(value, datetime) else value


def quorum(states: dict[float, tuple[int, int | None]]) -> list[Row]:
    """Rows of silver.quorum: controllers and their epochs, by the seconds at which polls saw them
    first.
    """
    return polled(
        silver.QUORUM,
        {
            seconds: {"controller_id": controller, "quorum_epoch": epoch}
            for seconds, (controller, epoch) in states.items()
        },
    )


def terms(of_log: list[Row], of_polls: list[Row], *names: str) -> list[tuple[Any, ...]]:
    rows = {gold.CONTROLLER_CHANGES: of_log, silver.QUORUM: of_polls}
    with duckdb_lake(rows, VIEWS) as lake:
        found = ask(lake, "SELECT * FROM gold.controllers ORDER BY poll")
    return [tuple(in_seconds(row[name]) for name in names) for row in found]


def findings(of_log: list[Row], of_polls: list[Row]) -> list[Row]:
    """What the SQL of incidents makes of them."""
    rows = {gold.CONTROLLER_CHANGES: of_log, silver.QUORUM: of_polls}
    sql = resolved(_SQL["controllers"], lambda name: name)
    sql = sql.replace(":since", "TIMESTAMP'2026-11-01 00:00:00Z'")
    with duckdb_lake(rows, VIEWS) as lake:
        found = ask(lake, f"SELECT * FROM ({sql}) ORDER BY began_before")
    names = dict.fromkeys(INCIDENT_LINKS.column_names)
    return [names | {"brokers": None} | row for row in found]


def flaps(of_log: list[Row], of_polls: list[Row]) -> bool:
    made = [*flapping([finding_of(row) for row in findings(of_log, of_polls)])]
    assert {each.kind for each in made} <= {QUORUM_FLAPPING}
    return bool(made)


def test_with_zookeeper_polls_name_each_controller_and_that_there_is_none() -> None:
    zookeeper = quorum({0: (1, None), 30: (-1, None), 40: (2, None), 90: (1, None)})
    assert terms([], zookeeper, *TERM, *ENDED) == [
        (1, None, None, 0, 20, 30, "lost"),
        (-1, None, 20, 30, 30, 40, "another_elected"),
        (2, None, 30, 40, 80, 90, "another_elected"),
        (1, None, 80, 90, None, None, None),
    ]
    told = ("broker_id", "number", "source", "began_before")
    assert [tuple(in_seconds(row[name]) for name in told) for row in findings([], zookeeper)] == [
        (None, 1, "polls", 40),
        (2, 1, "polls", 90),
    ]


def test_a_controller_that_is_elected_again_ends_a_term() -> None:
    again = quorum({0: (1, 4), 30: (1, 6), 60: (2, 7)})
    assert terms([], again, "controller_id", "prev_controller_epoch", *ENDED) == [
        (1, None, 20, 30, "elected_again"),
        (1, 4, 50, 60, "another_elected"),
        (2, 6, None, None, None),
    ]


def test_polls_fill_in_what_a_log_that_was_lost_does_not_have() -> None:
    """Clocks of controllers differ from those of polls: the record of epoch 5 is later."""
    log = [elected(15, 1, 4), elected(34, 2, 5), elected(95, 1, 8)]
    polls = quorum({0: (1, 3), 20: (1, 4), 30: (2, 5), 60: (3, 6), 90: (1, 8)})
    assert terms(log, polls, "source", *TERM, "ended_before") == [
        ("polls", 1, 3, None, 0, 15),
        ("log", 1, 4, 15, 15, 34),
        ("log", 2, 5, 34, 34, 60),
        ("polls", 3, 6, 50, 60, 95),
        ("log", 1, 8, 95, 95, None),
    ]


def test_a_cluster_that_elects_again_and_again_flaps_whoever_tells() -> None:
    def log(*seconds: float) -> list[Row]:
        # Each in the place of another one.
        return [
            elected(at, 1 + n % 2, n)
            | {"prev_controller_id": 2 - n % 2, "prev_controller_epoch": 1}
            for n, at in enumerate(seconds, 5)
        ]

    assert flaps(log(100, 300, 690), [])
    assert not flaps(log(100, 300, 701), [])
    assert not flaps(log(100, 300), [])
    epochs = quorum({0: (1, 1), 100: (2, 2), 300: (1, 3), 690: (2, 4)})
    assert flaps([], epochs)
    zookeeper = quorum({0: (1, None), 100: (2, None), 300: (1, None), 690: (2, None)})
    assert flaps([], zookeeper)
    # The first of them may have been before 100 s: ten minutes are not sure.
    assert not flaps([], quorum({0: (1, 1), 100: (2, 2), 300: (1, 3), 700: (2, 4)}))
    # Epochs that rise by more are votes that nobody won, or elections that polls missed.
    assert not flaps([], quorum({0: (1, 1), 100: (2, 5), 300: (1, 9)}))


def test_voters_of_the_log_count_where_polls_tell_them_too() -> None:
    def voters(seconds: float, *ids: int) -> dict[float, Row]:
        return {seconds: {"controller_id": 1, "quorum_epoch": 1, "voters": [*ids]}}

    polls = polled(
        silver.QUORUM,
        voters(0, 1, 2) | voters(100, 1, 2, 3) | voters(300, 1, 3) | {700: {"voters": None}},
    )
    exact = {"began_after": NOON, "began_before": NOON, "source": "log"}
    log = {**CLUSTER, "id": "x", "poll": log_id("s", 1), **exact}
    rows = {
        silver.QUORUM: polls,
        gold.VOTER_CHANGES: [log | {"prev_voters": [1, 2], "voters": [1, 2, 3]}],
    }
    for seconds, sources in ((95, ["log", "polls"]), (900, ["polls", "polls", "log"])):
        at = NOON.replace(minute=seconds // 60, second=seconds % 60)
        rows[gold.VOTER_CHANGES][0] |= {"began_after": at, "began_before": at}
        with duckdb_lake(rows, VIEWS) as lake:
            found = lake.sql(
                in_duckdb("SELECT source FROM gold.voter_changes ORDER BY began_before")
            ).fetchall()
        assert [source for (source,) in found] == sources
