"""Brokers out of ISRs, levels and incidents: against the rules written a second time, however
rounds are cut.
"""

from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.gold import LEVELS
from tests.support import gold_oracle
from tests.support.examples import examples
from tests.support.isr_rounds import (
    CHANGES,
    EPISODES,
    INCIDENTS,
    TABLES,
    Rows,
    folded,
    wait_for_ever,
)
from tests.support.silver_rows import History, Row, random_history

POLLS = 16
EXAMPLES = examples(30)
OWN = {"id", "cluster_id", "cluster", "duration_ms_min", "duration_ms_max", "is_live"}
"""Columns that the plain rules leave out."""
ALSO = {
    CHANGES: {"signs"},
    EPISODES: set(),
    INCIDENTS: {"rack", "began_after", "partitions_out"},
}
seeds = st.integers(0, 2**32)


def assert_as_the_rules_say(rows: Rows, history: History, now: datetime) -> None:
    changes = gold_oracle.isr_changes(history.rows, now)
    episodes = gold_oracle.isr_episodes(history.rows, changes)
    incidents = gold_oracle.broker_incidents(changes, episodes)
    for table, expected in zip(TABLES, (changes, episodes, incidents), strict=True):
        if expected:
            assert {name for row in rows[table] for name in row} == {
                *expected[0],
                *OWN,
                *ALSO[table],
            }
        names = list(expected[0]) if expected else []
        one, other = (
            sorted(repr([row[name] for name in names]) for row in each)
            for each in (rows[table], expected)
        )
        assert one == other, table


@settings(max_examples=EXAMPLES)
@given(seed=seeds, polls=st.integers(1, POLLS))
def test_rows_are_as_the_rules_say(seed: int, polls: int) -> None:
    history = random_history(seed, polls)
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
@given(seed=seeds, polls=st.integers(1, POLLS))
def test_deadlines_are_when_rows_change_though_nothing_is_new(seed: int, polls: int) -> None:
    history = random_history(seed, polls)
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


EVERYTHING = {
    *("left", "initially_out", "rejoined", "joined"),
    *("broker_down", "log_dir_failed", "reassignment", "lagging", "leader_stalled"),
    *("gone", "offline", "failed", "back", "together"),
    *(True, False, None),
    *("removed", "recreated", "unknown", "not_polled"),
    *LEVELS,
}


def test_random_histories_have_everything() -> None:
    seen: set[object] = set()
    for seed in range(120):
        rows, _ = folded(random_history(seed, POLLS))
        seen |= {
            row[name]
            for row in rows[CHANGES]
            for name in ("change", "cause", "is_flapping", "end_reason")
        }
        seen |= {sign for row in rows[CHANGES] for sign in row["signs"] or ()}
        seen |= {row[name] for row in rows[EPISODES] for name in ("level", "end_reason")}
        if seen >= EVERYTHING:
            return
    assert seen >= EVERYTHING


@settings(max_examples=EXAMPLES)
@given(seed=seeds, cuts=st.sets(st.integers(0, POLLS - 2)), narrow=st.booleans())
def test_rounds_cut_anywhere_make_the_same_rows(seed: int, cuts: set[int], narrow: bool) -> None:
    history = random_history(seed, POLLS)
    cut_rows, cut_memory = folded(history, *sorted(cuts), POLLS - 1, narrow=narrow)
    rows, memory = folded(history)
    assert cut_memory == memory
    for table in TABLES:
        assert sorted(map(repr, cut_rows[table])) == sorted(map(repr, rows[table])), table
