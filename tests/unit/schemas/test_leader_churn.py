"""The query leader_churn, of rows as rules make them."""

import re
from pathlib import Path

import schemas
from jobs.rules.gold import leaders
from jobs.rules.gold.news import GoldInput
from schemas.gold import LEADER_CHANGES
from schemas.internal import STATE_NOW
from schemas.views import OBSERVED
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.gold_cases import led, polled


def test_epochs_that_rose_under_one_leader_are_no_churn() -> None:
    after = {
        "moved": led(2, 6, isr="23"),
        "shrunk": led(1, 6, isr="13"),
        "twice": led(1, 7, isr="1"),
        "step": led(1, 6),
        "away": led(1, 7),
    }
    before = dict.fromkeys(after, led(1, 5))
    history = polled(before, after, levels=(11, 0))
    last = history.polls[-1]
    news = GoldInput.of(history.rows, None, last.poll_id, last.at)
    rows = leaders.fold(None, {}, news).rows[LEADER_CHANGES.full_name]
    assert len(rows) == 5
    query = (Path(schemas.__file__).parent / "queries" / "leader_churn.sql").read_text()
    given = {
        "since": "'2026-11-01'",
        "until": "'2026-11-02'",
        "cluster": "NULL",
        "topic": "NULL",
        "broker": "NULL",
    }
    with duckdb_lake({LEADER_CHANGES: rows}, (STATE_NOW, OBSERVED)) as lake:
        found = ask(lake, re.sub(r":(\w+)", lambda marker: given[marker[1]], query))
    names = ("topic", "partitions", "seen", "changes_min", "changes_max", "failover", "unknown")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("moved", 1, 1, 1, 1, 1, 0),
        ("away", 1, 0, 0, 2, 0, 1),
    ]
