"""Rounds of the fold of ISRs over a history of silver: all of it at one go, or cut, with no more of
live rows than it asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.configuration.config import Thresholds
from jobs.rules.gold.isr_shrink import fold
from jobs.rules.gold.news import GoldInput, GoldResult, Memory, as_of
from tests.support.oracles.isrs import FLAP_WINDOW, FLAPS
from tests.support.rounds import fold_in_rounds
from tests.support.silver_rows import CONFIGS, PARTITIONS, History, Row

CHANGES, EPISODES, INCIDENTS = "gold.isr_changes", "gold.isr_episodes", "gold.broker_incidents"
TABLES = (CHANGES, EPISODES, INCIDENTS)
THRESHOLDS = Thresholds(FLAPS, FLAP_WINDOW)
Rows = dict[str, list[Row]]


def folded(history: History, *ends: int, narrow: bool = False) -> tuple[Rows, Memory]:
    """The rows of the three tables, and the memory, after rounds up to each of the polls numbered
    `ends` (without: up to the last).

    `narrow`: give the fold only those live rows that it says it needs.
    """

    def with_context(
        memory: Any, live: Mapping[str, Sequence[Row]], news: GoldInput, thresholds: Any
    ) -> GoldResult:
        news = replace(news, context=context(history, news))
        return fold(memory, narrowed(live, news) if narrow else live, news, thresholds)

    return fold_in_rounds(
        with_context, history, ends or (len(history.polls) - 1,), keys=TABLES, thresholds=THRESHOLDS
    )


def context(history: History, news: GoldInput) -> list[Row]:
    """The partitions, as they are, of topics whose settings changed."""
    topics = {row["topic"] for row in news.rows.get(CONFIGS, ())}
    rows = [
        as_of(row, news.settled_poll)
        for row in history.rows[PARTITIONS]
        if row["first_poll"] <= news.settled_poll
    ]
    return [row for row in rows if row["topic"] in topics and row["superseded_poll"] is None]


def narrowed(live: Mapping[str, Sequence[Row]], news: GoldInput) -> Rows:
    touched = {
        (row["topic"], row["partition"]) for row in [*news.rows.get(PARTITIONS, ()), *news.context]
    }

    def of_touched(row: Row) -> bool:
        return (row["topic"], row["partition"]) in touched

    return {
        CHANGES: [
            r
            for r in live[CHANGES]
            if of_touched(r) or r["cause"] is None or r["ended_poll"] is not None
        ],
        EPISODES: list(filter(of_touched, live[EPISODES])),
        INCIDENTS: list(live[INCIDENTS]),
    }


def wait(
    history: History, rows: Rows, memory: Memory, at: datetime
) -> tuple[Rows, datetime | None]:
    """What a round without news makes of the rows of a whole history, settled `at`; and the
    deadline.
    """
    last = history.polls[-1].poll_id
    live = {table: [row for row in rows[table] if row["is_live"]] for table in TABLES}
    made = fold(memory, live, GoldInput({}, last, last, at), THRESHOLDS)
    assert made.memory == memory
    return {table: list(made.rows[table]) for table in TABLES}, made.deadline


def wait_for_ever(history: History) -> Rows:
    """The rows of a whole history when nothing is due any more. Before a deadline none may
    change.
    """
    rows, memory = folded(history)
    said, deadline = wait(history, rows, memory, history.polls[-1].at)
    assert not any(said.values())
    while deadline is not None:
        too_early, same = wait(history, rows, memory, deadline - timedelta(microseconds=1))
        assert not any(too_early.values())
        assert same == deadline
        made, later = wait(history, rows, memory, deadline)
        assert later is None or later > deadline
        deadline = later
        rows = {
            table: list({row["id"]: row for row in [*rows[table], *made[table]]}.values())
            for table in TABLES
        }
    return rows
