"""Brokers out of ISRs, levels and incidents, a poll at a time: against the rules written a second
time, however rounds are cut.
"""

import random
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.rules.gold.isr_shrink import needed
from tests.support.examples import examples
from tests.support.gold_cases import Seen, T, assert_same, departures, in_sync, led, rows_of
from tests.support.isr_rounds import (
    CHANGES,
    EPISODES,
    INCIDENTS,
    TABLES,
    Rows,
    folded,
    wait_for_ever,
)
from tests.support.oracles import gold
from tests.support.silver_rows import History, Row, random_history

# --- one poll ---

U = ("u", 0)

SIGNS: dict[str, tuple[list[Seen], list[tuple[int, list[str]]]]] = {
    "gone: not listed when it left": ([Seen("123"), Seen("12", brokers="12")], [(3, ["gone"])]),
    "gone: not listed since before": (
        [Seen("123", brokers="12"), Seen("12", brokers="12")],
        [(3, ["gone"])],
    ),
    "gone: not listed when first seen": ([Seen("12", brokers="12")], [(3, ["gone"])]),
    "gone: not listed later": (
        [Seen("123"), Seen("12"), Seen("12", brokers="12")],
        [(3, ["gone"])],
    ),
    "none: its rack is another": ([Seen("123"), Seen("12"), Seen("12", rack="x")], [(3, [])]),
    "none: another was removed by a reassignment": (
        [Seen("123"), Seen({T: in_sync("1", "12")})],
        [(2, []), (3, [])],
    ),
    "failed: it lost a leadership": (
        [Seen({T: in_sync("123"), U: led(1)}), Seen({T: in_sync("23"), U: led(2, 1)})],
        [(1, ["failed"])],
    ),
    "none: another broker is gone": ([Seen("123"), Seen("12", brokers="13")], [(3, [])]),
}
"""A sign -> a life, and the signs of its absences."""


@pytest.mark.parametrize("case", SIGNS)
def test_signs_of_brokers(case: str) -> None:
    polls, expected = SIGNS[case]
    assert departures(rows_of(*polls), "broker_id", "signs") == expected


def test_racks_are_those_of_the_poll_or_of_the_one_before() -> None:
    there, before, never = Seen("12"), Seen("12", brokers="12"), Seen("12", brokers="12")
    rows = rows_of(Seen("123"), there)
    assert departures(rows, "rack") == [("r3",)]
    assert departures(rows_of(Seen("123"), before), "rack") == [("r3",)]
    assert departures(rows_of(never), "rack") == [(None,)]


def test_an_incident_has_the_worst_level_of_its_brokers_partitions() -> None:
    """Broker 3 is out of both, of which one is at its min ISR; broker 2 is out of the other."""
    both = {T: in_sync("12"), U: in_sync("1")}
    rows = rows_of(Seen({T: in_sync("123"), U: in_sync("123")}), Seen(both, min_isr=2))
    worst = {row["broker_id"]: row["worst_level"] for row in rows[INCIDENTS]}
    assert worst == {2: "under_replicated", 3: "at_min_isr"}


def test_rows_that_nothing_can_change_are_not_needed() -> None:
    def row(topic: str, cause: str | None, ended_poll: str | None) -> Row:
        return {"topic": topic, "cause": cause, "ended_poll": ended_poll}

    changes = [
        row("news", "lagging", None),
        row("t", "lagging", None),
        row("t", None, None),
        row("t", "lagging", "s/1"),
    ]
    text = pa.string()
    schema = pa.schema([("topic", text), ("cause", text), ("ended_poll", text)])
    live = {
        CHANGES: pa.Table.from_pylist(changes, schema),
        EPISODES: pa.table({"topic": ["news", "t"]}),
        INCIDENTS: pa.table({"broker_id": [1]}),
    }
    found = needed(live, pa.array(["news"]))
    assert found[CHANGES].to_pylist() == [changes[0], *changes[2:]]
    assert found[EPISODES].to_pylist() == [{"topic": "news"}]
    assert found[INCIDENTS] == live[INCIDENTS]
    assert needed({}, pa.array(["news"])) == {}


# --- random lives ---

POLLS = 16
EXAMPLES = examples(30)
OWN = {"id", "cluster_id", "cluster", "duration_ms_min", "duration_ms_max", "is_live"}
"""Columns that the plain rules leave out."""
ALSO = {CHANGES: {"signs"}, EPISODES: set(), INCIDENTS: {"rack", "began_after", "partitions_out"}}
LIVES = st.randoms(use_true_random=False)


def assert_as_the_rules_say(rows: Rows, history: History, now: datetime) -> None:
    expected = gold.expected_rows(history.rows, now)
    for table in TABLES:
        assert_same(rows[table], expected[table], *OWN, *ALSO[table])


@settings(max_examples=3 * EXAMPLES)
@given(life=LIVES, polls=st.integers(1, POLLS))
def test_rows_are_as_the_rules_say(life: random.Random, polls: int) -> None:
    history = random_history(life, polls)
    rows, _ = folded(history)
    assert_as_the_rules_say(rows, history, history.polls[-1].at)
    for table in TABLES:
        assert len({row["id"] for row in rows[table]}) == len(rows[table])
        for row in rows[table]:
            assert_durations(row)


def assert_durations(row: Row) -> None:
    if row["ended_poll"] is None:
        assert (row["duration_ms_min"], row["duration_ms_max"]) == (None, None)
        return
    shortest = row["ended_after"] and (row["ended_after"] - row["began_before"]) // timedelta(
        milliseconds=1
    )
    longest = row["began_after"] and (row["ended_before"] - row["began_after"]) // timedelta(
        milliseconds=1
    )
    assert (row["duration_ms_min"], row["duration_ms_max"]) == (max(0, shortest or 0), longest)


@settings(max_examples=EXAMPLES // 2)
@given(life=LIVES, polls=st.integers(1, POLLS))
def test_deadlines_are_when_rows_change_though_nothing_is_new(
    life: random.Random, polls: int
) -> None:
    history = random_history(life, polls)
    rows = wait_for_ever(history)
    assert_as_the_rules_say(rows, history, history.polls[-1].at + timedelta(days=1))
    for table in TABLES:
        assert all(
            row["is_live"] == (row["ended_poll"] is None)
            for row in rows[table]
            if "signs" not in row
        )
    for row in rows[CHANGES]:
        is_out = row["change"] in {"left", "initially_out"} and row["ended_poll"] is None
        of_incident = any(
            incident["is_live"]
            and incident["broker_id"] == row["broker_id"]
            and incident["poll"] <= row["poll"]
            for incident in rows[INCIDENTS]
        )
        assert row["is_live"] or not is_out
        assert is_out or of_incident or not row["is_live"]


@settings(max_examples=EXAMPLES)
@given(life=LIVES, cuts=st.sets(st.integers(0, POLLS - 2)), narrow=st.booleans())
def test_rounds_cut_anywhere_make_the_same_rows(
    life: random.Random, cuts: set[int], narrow: bool
) -> None:
    history = random_history(life, POLLS)
    cut_rows, cut_memory = folded(history, *sorted(cuts), POLLS - 1, narrow=narrow)
    rows, memory = folded(history)
    assert cut_memory == memory
    for table in TABLES:
        assert sorted(map(repr, cut_rows[table])) == sorted(map(repr, rows[table])), table
