"""Seconds that nobody observed are in no least, and in `not_observed_s`: each query that counts
seconds, in DuckDB. That Spark answers the same is in tests/spark/test_questions.py.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_metadata_history.answers.questions import names, text_of
from kafka_metadata_history.report import queries
from schemas.lake import VIEWS
from tests.support.duckdb_lake import asking
from tests.support.sums_of_time import (
    ASKED,
    BY_LOG,
    BY_POLLS,
    LAST,
    NUMBER,
    THINGS,
    Ask,
    at,
    by,
    happened,
    observed,
    seconds,
    window,
)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with asking(observed([(100, 200)], LAST) | happened()) as asked:
        yield lambda name, **more: asked(text_of(name), window(ASKED) | more)


OF_BROKERS = {NUMBER[thing]: expected for thing, expected in BY_POLLS.items()}


def test_time_at_level(ask: Ask) -> None:
    assert by(ask, "time_at_level", "topic") == BY_POLLS


def test_time_at_level_in_a_window(ask: Ask) -> None:
    """Within the gap; of what lies before it; and before anybody polled."""
    assert by(ask, "time_at_level", "topic", until=str(at(150))) == {
        "closed": (20, 30, 0),
        "lasts": (50, 110, 50),
        "ended in the gap": (40, 95, 50),
        "over the gap": (10, 70, 50),
    }
    assert by(ask, "time_at_level", "topic", since=str(at(400)), topic="lasts") == {
        "lasts": (0, 414, 414)
    }


def test_one_failure_from_offline(ask: Ask) -> None:
    assert by(ask, "one_failure_from_offline", "topic") == BY_POLLS
    assert by(ask, "one_failure_from_offline", "topic", until=str(at(150)))["lasts"] == (
        50,
        110,
        50,
    )


def test_one_more_loss(ask: Ask) -> None:
    """Partitions share their time: the seconds of "closed", and of those that overlap "lasts"."""
    (offline, under) = ask("one_more_loss")
    assert seconds(offline) == (20 + 155, 30 + 774, 100 + 509)
    assert seconds(under) == (0, 0, 609), "nobody is left in the ISR"
    (offline, _) = ask("one_more_loss", until=str(at(150)))
    assert seconds(offline) == (20 + 50, 30 + 110, 50)


@pytest.mark.parametrize(
    "name", ["broker_incidents", "repeat_offenders", "restart_steps", "stale_brokers"]
)
def test_brokers(ask: Ask, name: str) -> None:
    assert by(ask, name, "broker_id") == OF_BROKERS
    assert by(ask, name, "broker_id", until=str(at(150)))[NUMBER["lasts"]] == (50, 110, 50)


def test_incidents(ask: Ask) -> None:
    assert by(ask, "incidents", "id") == BY_POLLS
    assert {row["id"] for row in ask("incidents", at_least=40)} == {"lasts", "ended in the gap"}


def test_restarts(ask: Ask) -> None:
    """One was still out: it lasts. Of an overlap no least has what nobody observed."""
    assert by(ask, "restarts", "cluster") == {"prod": (195, 809, 609)}
    (row,) = ask("restarts_compared")
    assert seconds(row) == (195, 809, 609)
    assert (row["out_s_min"], row["out_s_max"]) == tuple(
        sum(of[end] for of in BY_POLLS.values()) for end in (0, 1)
    )
    overlaps = {
        row["broker_id"]: (row["overlap_s_min"], row["overlap_s_max"])
        for row in ask("restart_steps")
    }
    # With the one that lasts, and with the one that ended in the gap.
    assert overlaps[NUMBER["over the gap"]] == (20 + 10, 140 + 120)
    assert overlaps[NUMBER["closed"]] == (0, 0)


def test_who_left_first(ask: Ask) -> None:
    # A broker that is still out has no longest time.
    lasts, least_and_not_observed = NUMBER["lasts"], (155, None, 609)
    assert {
        broker: (least, unseen)
        for broker, (least, _, unseen) in by(ask, "who_left_first", "broker_id").items()
    } == {broker: (least, unseen) for broker, (least, _, unseen) in OF_BROKERS.items()}
    assert by(ask, "who_left_first", "broker_id")[lasts] == least_and_not_observed


def test_broker_states(ask: Ask) -> None:
    assert by(ask, "broker_states", "broker_id") == {
        NUMBER[thing]: expected for thing, expected in BY_LOG.items()
    }


def test_leader_churn(ask: Ask) -> None:
    assert by(ask, "leader_churn", "topic") == {
        thing: own for thing, own in BY_POLLS.items() if thing != "lasts"
    }


def test_availability(ask: Ask) -> None:
    """Nothing else counts what nobody observed: it is not in the most, either."""
    of_writes = {row["topic"]: row for row in ask("availability") if row["bad_for"] == "writes"}
    # Of each partition the gap, and what came after the last poll. min.insync.replicas is not
    # known, so the time in which a replica was out is in the most.
    assert {thing: row["not_observed_s"] for thing, row in of_writes.items() if thing} == (
        dict.fromkeys(THINGS, 100 + ASKED - LAST)
    )
    assert {
        thing: (row["spent_s_min"], row["spent_s_max"]) for thing, row in of_writes.items() if thing
    } == {thing: (0, most - unseen) for thing, (_, most, unseen) in BY_POLLS.items()}
    assert of_writes[None]["not_observed_s"] == len(THINGS) * (100 + ASKED - LAST)


def test_away_from_preferred(ask: Ask) -> None:
    assert by(ask, "away_from_preferred", "broker_id") == {
        NUMBER["closed"]: (0,),
        NUMBER["lasts"]: (609,),
        NUMBER["ended in the gap"]: (100,),
        NUMBER["over the gap"]: (100,),
    }


OF_GROUPS = {
    **{f"{thing}, by polls": expected for thing, expected in BY_POLLS.items()},
    **{f"{thing}, by log": expected for thing, expected in BY_LOG.items()},
}


def test_rebalances(ask: Ask) -> None:
    assert by(ask, "rebalances", "group_id") == OF_GROUPS


def test_group_stability(ask: Ask) -> None:
    assert by(ask, "group_stability", "group_id") == OF_GROUPS
    shares = {
        row["group_id"]: (row["per_hour"], row["percent_min"], row["percent_max"])
        for row in ask("group_stability")
    }
    # Of 305 s, and by polls of the 205 s that somebody observed of them.
    assert shares["over the gap, by log"] == pytest.approx(
        (3600 / 305, 100 * 120 / 305, 100 * 140 / 305)
    )
    assert shares["over the gap, by polls"] == pytest.approx(
        (3600 / 205, 100 * 20 / 205, 100 * 40 / 205)
    )
    assert shares["lasts, by log"] == pytest.approx((3600 / 305, 100 * 255 / 305, 100 * 265 / 305))
    late = {row["group_id"]: row for row in ask("group_stability", since=str(at(400)))}[
        "lasts, by log"
    ]
    assert (late["per_hour"], late["percent_min"], late["percent_max"]) == (None, None, None), (
        "nobody observed any of it"
    )


def test_stuck_groups(ask: Ask) -> None:
    assert by(ask, "stuck_groups", "group_id") == {
        "lasts, by log": (255, 774, 509),
        "lasts, by polls": (155, 774, 609),
        "of a polled state": (155, 774, 609),
    }
    by_time = [row["group_id"] for row in ask("stuck_groups", at_least=155)]
    assert by_time == ["lasts, by log", "lasts, by polls", "of a polled state"], "the longest first"
    assert [row["group_id"] for row in ask("stuck_groups", at_least=156)] == ["lasts, by log"]


def test_lag(ask: Ask) -> None:
    assert by(ask, "lag", "group_id") == {"lasts": (155, 774, 609)}
    assert len(ask("lag", at_least=155)) == 1
    assert ask("lag", at_least=156) == []


def test_slowest_to_recover(ask: Ask) -> None:
    assert by(ask, "slowest_to_recover", "group_id") == {
        "awaits a commit": (255, None, 509),
        "lag is back": (20, 130, 100),
        "never told": (0, None, 0),
    }


COUNT_NO_SECONDS = {
    "health": "the age of a poll",
    "incident_links": "how long a finding began after another one",
    "open_transactions": "a transaction's time-out, as its producer set it",
    "lag_around": "when a change of lag was seen, counted from a rebalance",
    "rebalance_cost": "a pause lies between two commits of the coordinators' log",
    "restart_rebalances": "a pause, as in rebalance_cost",
    "stuck_transactions": "seen_at says up to when the log tells that it is stuck",
    "transactional_ids": "a transaction lies between two records of the coordinators' log",
    "transactions": "as in transactional_ids; one that lasts did at least until the log was read",
}


def test_every_query_that_counts_seconds_is_here() -> None:
    seconds_or_more = re.compile(r"unix_micros|(seconds\w*|_m?s(_min|_max)?) *(,|$)", re.MULTILINE)
    counted = {name for name in names() if seconds_or_more.search(text_of(name))}
    assert {
        name for name in names() if "not_observed_s" in text_of(name)
    } == counted - COUNT_NO_SECONDS.keys()


FIGURES = Path(queries.__file__).parent / "sql"
VIEWS_WITHOUT_SUMS = {
    "silver.observed": "the planned interval of polls",
    "gold.transactional_ids": "transactions lie between two records of the coordinators' log",
    "gold.rebalances": "the time since the group's rebalance before",
}


def test_every_view_and_figure_that_counts_seconds_says_what_nobody_observed() -> None:
    """Figures of the report have times, and hatch what nobody observed; its table of a week is in
    tests/unit/kafka_metadata_history/report/test_week.py.
    """
    texts = {view.full_name: view.query for view in VIEWS if view.schema != "internal"}
    texts |= {file.stem: file.read_text() for file in FIGURES.glob("*.sql")}
    assert len(texts) > len(VIEWS)
    seconds = re.compile(r"AS (\w+_)?(m?s|seconds)(_min|_max)?\b|/ 1e6")
    counted = {name for name, sql in texts.items() if seconds.search(sql)}
    assert "gold.availability" in counted
    assert {name for name, sql in texts.items() if "not_observed_s" in sql} == (
        counted - VIEWS_WITHOUT_SUMS.keys()
    )
