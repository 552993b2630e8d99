"""Changes of leaders and their balance: against the rules written a second time, however rounds are
cut, and case by case.
"""

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schemas
from jobs.rules.gold.elections import failed_leaders
from jobs.rules.gold.leaders import fold
from jobs.rules.gold.news import GoldInput, Levels
from schemas.gold import LEADER_CHANGES
from schemas.internal import STATE_NOW
from schemas.views import OBSERVED
from tests.support import gold_oracle
from tests.support.duckdb_lake import ask, duckdb_lake
from tests.support.examples import examples
from tests.support.rounds import fold_in_rounds
from tests.support.silver_rows import (
    CLUSTERS,
    ELR,
    OF_KAFKA,
    PARTITIONS,
    START,
    TABLES,
    History,
    Line,
    Poll,
    Row,
    random_history,
)

POLLS = 14
EXAMPLES = examples(60)
KEYS = {"gold.leader_changes": ("id",), "gold.leader_balance": ("cluster_id", "broker_id", "poll")}
seeds = st.integers(0, 2**32)


def folded(history: History, *ends: int) -> tuple[dict[str, list[Row]], Any]:
    return fold_in_rounds(
        fold,
        history,
        ends or (len(history.polls) - 1,),
        keys=KEYS,
        is_live=lambda table, row: table == "gold.leader_balance" and row["valid_to"] is None,
    )


def assert_same(found: list[Row], expected: list[Row], *more: str) -> None:
    """`more`: columns that the plain rules leave out."""
    if expected:
        assert {name for row in found for name in row} == {*expected[0], *more}
    names = list(expected[0]) if expected else []
    one, other = (
        sorted(repr([row[name] for name in names]) for row in rows) for rows in (found, expected)
    )
    assert one == other


def assert_as_the_rules_say(history: History) -> list[Row]:
    rows, _ = folded(history)
    expected = gold_oracle.leader_changes(history.rows)
    assert_same(rows["gold.leader_changes"], expected, "id", "cluster_id", "cluster")
    assert_same(
        rows["gold.leader_balance"],
        gold_oracle.leader_balance(history.rows),
        "cluster_id",
        "cluster",
    )
    return expected


@settings(max_examples=EXAMPLES)
@given(seed=seeds, polls=st.integers(1, POLLS))
def test_leader_events_are_as_the_rules_say(seed: int, polls: int) -> None:
    assert_as_the_rules_say(random_history(seed, polls))


def test_random_histories_have_everything() -> None:
    seen = {
        (name, row[name])
        for seed in range(150)
        for row in assert_as_the_rules_say(random_history(seed, POLLS))
        for name in ("epoch_semantics", "reason", "unclean", "is_last_known_leader")
    }
    reasons = (
        "preferred",
        "failover",
        "reassignment",
        "recovery",
        "offline",
        "isr_shrink",
        "unknown",
    )
    assert seen == {
        *(("epoch_semantics", value) for value in ("exact", "upper_bound", "unreliable")),
        *(("reason", value) for value in reasons),
        *(("unclean", value) for value in ("no", "suspected", "proven", None)),
        *(("is_last_known_leader", value) for value in (True, False, None)),
    }


@settings(max_examples=EXAMPLES)
@given(seed=seeds, cuts=st.sets(st.integers(0, POLLS - 2)))
def test_rounds_cut_anywhere_make_the_same_rows(seed: int, cuts: set[int]) -> None:
    history = random_history(seed, POLLS)
    cut_rows, cut_memory = folded(history, *sorted(cuts), POLLS - 1)
    rows, memory = folded(history)
    assert cut_memory == memory
    for table in KEYS:
        assert sorted(map(repr, cut_rows[table])) == sorted(map(repr, rows[table]))


@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_leaders_that_failed_are_as_the_rules_say(seed: int) -> None:
    history, levels = random_history(seed, POLLS), Levels()
    end = history.polls[-1]
    for poll in GoldInput.of(history.rows, None, end.poll_id, end.at).polls():
        levels = levels.at(poll)
        rows = poll.began.partitions
        assert failed_leaders(rows, levels) == {
            row["prev_leader"]
            for row in rows
            if gold_oracle.is_failover(row, history.rows[CLUSTERS])
            or (gold_oracle.came_back(row) and gold_oracle.is_exact(row, history.rows[CLUSTERS]))
        }


def test_a_round_without_news_says_nothing() -> None:
    history = random_history(1, POLLS)
    once, _ = folded(history)
    again, _ = folded(history, POLLS - 1, POLLS - 1)
    assert again == once


# --- one change at a time ---

BEGIN, STEP = START, timedelta(seconds=10)


def state(
    leader: int, leader_epoch: int, replicas: str = "123", isr: str = "123", error_code: int = 0
) -> Row:
    return {
        "topic_id": "id1",
        "error_code": error_code,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "replicas": [int(each) for each in replicas],
        "isr": [int(each) for each in isr],
        "offline_replicas": [],
    }


def migrated(history: History) -> dict[str, list[Row]]:
    """Rows of gold of a cluster that migrates from ZooKeeper."""
    last = history.polls[-1]
    news = replace(GoldInput.of(history.rows, None, last.poll_id, last.at), is_migrating=True)
    return {table: list(rows) for table, rows in fold(None, {}, news).rows.items()}


def history_of(
    *polls: dict[str, Row], levels: tuple[int | None, int] = (25, 0), elr: str | None = None
) -> History:
    """Ten seconds apart, answered 100 ms after they were sent. `polls`: states by topic. `elr`: of
    topic t, "elr/last known", as answered beside the first.
    """
    lines = {name: Line(TABLES[name]) for name in (CLUSTERS, PARTITIONS, ELR)}
    seen = []
    for n, topics in enumerate(polls):
        poll = Poll(
            f"s/{n:012d}", BEGIN + n * STEP + timedelta(milliseconds=100), BEGIN + n * STEP, 10_000
        )
        seen.append(poll)
        lines[CLUSTERS].look(
            poll,
            {(): {"metadata_version_level": levels[0], "elr_version_level": levels[1], **OF_KAFKA}},
        )
        lines[PARTITIONS].look(poll, {(topic, 0): row for topic, row in topics.items()})
        if elr and n == 0:
            lists = [[int(each) for each in part] for part in elr.split("/")]
            answered = replace(poll, at=poll.at + timedelta(milliseconds=300), sent_at=poll.at)
            lines[ELR].look(
                answered, {("t", 0): dict(zip(("elr", "last_known_elr"), lists, strict=True))}
            )
    return History({name: line.rows for name, line in lines.items()}, seen)


def changes(*polls: dict[str, Row], **more: Any) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in folded(history_of(*polls, **more))[0]["gold.leader_changes"]:
        found.setdefault(row["topic"], []).append(row)
    return found


DOWN = state(-1, 5, isr="1", error_code=5)
CASES: dict[str, tuple[Row, Row, dict[str, Any], dict[str, Any]]] = {
    "preferred election": (
        state(2, 5),
        state(1, 6),
        {},
        {
            "reason": "preferred",
            "unclean": "no",
            "epoch_semantics": "exact",
            "changes_max": 1,
            "changes_hidden": 0,
        },
    ),
    "failover": (
        state(1, 5),
        state(2, 6, isr="23"),
        {},
        {"reason": "failover", "unclean": "no", "changes_min": 1, "leaderless_ms_max": 0},
    ),
    "preferred replica leads as its leader left the ISR": (
        state(2, 5),
        state(1, 6, isr="13"),
        {},
        {"reason": "unknown"},
    ),
    "came back": (
        state(1, 5),
        state(1, 7),
        {},
        {"reason": "unknown", "changes_min": 2, "changes_hidden": 2, "leaderless_ms_max": 10_100},
    ),
    "unseen reassignment": (
        state(1, 5),
        state(1, 6),
        {},
        {
            "reason": "unknown",
            "changes_min": 0,
            "changes_max": 0,
            "changes_hidden": 0,
            "leaderless_ms_max": 0,
        },
    ),
    "reassignment": (
        state(1, 5),
        state(4, 6, replicas="423", isr="234"),
        {},
        {
            "reason": "reassignment",
            "epoch_semantics": "upper_bound",
            "changes_min": 1,
            "changes_max": 1,
        },
    ),
    "reassignment of several steps": (
        state(1, 5),
        state(4, 8, replicas="423", isr="234"),
        {},
        {"reason": "unknown", "changes_min": 1, "changes_max": 3, "changes_hidden": None},
    ),
    "cancelled reassignment": (
        state(2, 5, replicas="21", isr="12"),
        state(1, 7, replicas="12", isr="12"),
        {},
        {
            "epoch_semantics": "upper_bound",
            "changes_min": 1,
            "changes_max": 2,
            "reason": "preferred",
        },
    ),
    "before 3.6-IV0": (
        state(1, 5),
        state(2, 8, isr="23"),
        {"levels": (11, 0)},
        {"epoch_semantics": "upper_bound", "changes_min": 1, "changes_max": 3},
    ),
    "shrunk below 3.6-IV0": (
        state(1, 5),
        state(1, 6, isr="13"),
        {"levels": (11, 0)},
        {
            "reason": "isr_shrink",
            "changes_min": 0,
            "changes_max": 0,
            "changes_hidden": 0,
            "unclean": "no",
        },
    ),
    "shrunk twice, the level unknown": (
        state(1, 5),
        state(1, 7, isr="1"),
        {"levels": (None, 0)},
        {"reason": "isr_shrink", "changes_min": 0, "changes_max": 2, "changes_hidden": None},
    ),
    "two left in one step": (
        state(1, 5),
        state(1, 6, isr="1"),
        {"levels": (11, 0)},
        {"reason": "isr_shrink"},
    ),
    "one left in two steps": (
        state(1, 5),
        state(1, 7, isr="13"),
        {"levels": (11, 0)},
        {"reason": "unknown", "changes_max": 2},
    ),
    "one step below 3.6-IV0, nobody left": (
        state(1, 5),
        state(1, 6),
        {"levels": (11, 0)},
        {"reason": "unknown", "epoch_semantics": "upper_bound", "changes_min": 0, "changes_max": 0},
    ),
    "shrunk from 3.6-IV0 on": (state(1, 5), state(1, 6, isr="13"), {}, {"reason": "unknown"}),
    "shrunk in a reassignment": (
        state(1, 5),
        state(1, 6, replicas="13", isr="13"),
        {"levels": (11, 0)},
        {"reason": "unknown"},
    ),
    "moved in the same epoch": (
        state(1, 5),
        state(2, 5),
        {},
        {
            "epoch_semantics": "unreliable",
            "changes_min": 1,
            "changes_max": None,
            "leaderless_ms_max": 10_100,
        },
    ),
    "the leader that an election brought failed": (
        state(2, 5),
        state(3, 7, isr="23"),
        {},
        {"reason": "unknown", "unclean": None, "changes_min": 2},
    ),
    "away and back, perhaps by an unclean election": (
        state(2, 5, isr="2"),
        state(2, 7, isr="2"),
        {},
        {"reason": "unknown", "unclean": None, "changes_min": 2},
    ),
    "failover, and a shrink that raises the epoch": (
        state(2, 5, replicas="1234", isr="234"),
        state(3, 7, replicas="1234", isr="3"),
        {"levels": (11, 0)},
        {"reason": "failover", "unclean": None, "changes_min": 1, "changes_max": 2},
    ),
    "the preferred replica was elected and failed, which took it out of the ISR": (
        state(3, 16, replicas="143", isr="134"),
        state(4, 18, replicas="143", isr="34"),
        {"levels": (11, 0)},
        {"reason": "unknown", "unclean": None, "changes_min": 1, "changes_max": 2},
    ),
    "the preferred replica was elected and failed, and another left the ISR": (
        state(2, 5, replicas="1234", isr="1234"),
        state(3, 8, replicas="1234", isr="23"),
        {"levels": (11, 0)},
        {"reason": "unknown"},
    ),
    "not preferred, without epochs": (
        state(2, 5) | {"leader_epoch": None},
        state(3, 6) | {"leader_epoch": None},
        {},
        {"reason": "unknown", "unclean": "no", "epoch_semantics": "unreliable"},
    ),
    "offline": (
        state(1, 5),
        state(-1, 6, isr="1", error_code=5),
        {},
        {"reason": "offline", "unclean": "no", "changes_max": 1},
    ),
    "hidden listener": (
        state(1, 5),
        state(-1, 6, error_code=72),
        {},
        {
            "reason": "unknown",
            "unclean": None,
            "changes_min": 1,
            "changes_hidden": 1,
            "is_last_known_leader": None,
        },
    ),
    "recovery": (
        DOWN,
        state(1, 6, isr="1"),
        {},
        {"reason": "recovery", "unclean": "no", "leaderless_ms_min": 0, "leaderless_ms_max": None},
    ),
    "unclean proven": (DOWN, state(3, 6, isr="3"), {}, {"reason": "recovery", "unclean": "proven"}),
    "unclean proven, of Kafka 2.6 and before, which knows neither level": (
        DOWN,
        state(3, 6, isr="3"),
        {"levels": (None, 0)},
        {"unclean": "proven", "epoch_semantics": "upper_bound"},
    ),
    "unclean suspected": (
        DOWN,
        state(3, 7, isr="3"),
        {},
        {"unclean": "suspected", "is_last_known_leader": None},
    ),
    "unclean with a level unknown": (
        DOWN,
        state(3, 6, isr="3"),
        {"levels": (25, None)},
        {"unclean": None},
    ),
    "elected from the ELR": (
        DOWN | {"isr": []},
        state(3, 6, isr="3"),
        {"levels": (25, 1), "elr": "3/1"},
        {"unclean": "no", "is_last_known_leader": False},
    ),
    "last known leader": (
        DOWN | {"isr": []},
        state(1, 6, isr="1"),
        {"levels": (25, 1), "elr": "3/1"},
        {"unclean": "suspected", "is_last_known_leader": True},
    ),
    "in both lists": (
        DOWN | {"isr": []},
        state(3, 6, isr="3"),
        {"levels": (25, 1), "elr": "3/3"},
        {"unclean": "no", "is_last_known_leader": False},
    ),
    "an eligible leader that was down": (
        DOWN | {"isr": [], "offline_replicas": [1, 3]},
        state(3, 6, isr="3"),
        {"levels": (25, 1), "elr": "3/1"},
        {"reason": "recovery", "unclean": None, "is_last_known_leader": None},
    ),
    "a last known leader that was down": (
        DOWN | {"isr": [], "offline_replicas": [1, 3]},
        state(1, 6, isr="1"),
        {"levels": (25, 1), "elr": "3/1"},
        {"unclean": "suspected", "is_last_known_leader": True},
    ),
    "nobody leads, and an eligible leader is down": (
        state(1, 5, isr="1") | {"offline_replicas": [3]},
        state(-1, 6, isr=""),
        {"levels": (25, 1), "elr": "3/1"},
        {"unclean": "no", "is_last_known_leader": False},
    ),
    "leader was hidden": (
        state(-1, 5, isr="2", error_code=72),
        state(1, 6, isr="12"),
        {"levels": (25, 1), "elr": "3/1"},
        {
            "reason": "unknown",
            "unclean": "suspected",
            "is_last_known_leader": False,
            "leaderless_ms_min": 0,
        },
    ),
    "neither eligible nor last known, in an answer that may have come after the election": (
        DOWN | {"isr": []},
        state(2, 6, isr="2"),
        {"levels": (25, 1), "elr": "3/1"},
        {"unclean": None, "is_last_known_leader": None},
    ),
    # ELR was switched on: the level is that of a moment before.
    "an empty ISR, and no ELR as far as the level tells": (
        DOWN | {"isr": []},
        state(3, 6, isr="3"),
        {"levels": (25, 0)},
        {"reason": "recovery", "unclean": None, "is_last_known_leader": None},
    ),
    "an empty ISR and an ELR that was asked for, and no ELR as far as the level tells": (
        DOWN | {"isr": []},
        state(3, 6, isr="3"),
        {"levels": (25, 0), "elr": "3/1"},
        {"unclean": "no"},
    ),
    "with ELR, not asked": (
        DOWN | {"isr": []},
        state(1, 6, isr="1"),
        {"levels": (25, 1)},
        {"unclean": None},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    before, after, more, expected = CASES[case]
    history = history_of({"t": before}, {"t": after}, **more)
    assert_as_the_rules_say(history)
    (row,) = changes({"t": before}, {"t": after}, **more)["t"]
    assert {name: row[name] for name in expected} == expected


@pytest.mark.parametrize("leader", [1, 3])
def test_eligible_leaders_of_an_earlier_state_tell_nothing(leader: int) -> None:
    """They may have changed with the ISR, and were not asked for since."""
    polls = [
        {"t": state(1, 4, isr="1")},
        {"t": DOWN | {"isr": []}},
        {"t": state(leader, 6, isr=str(leader))},
    ]
    asked = {"levels": (25, 1), "elr": "3/1"}
    assert_as_the_rules_say(history_of(*polls, **asked))
    row = changes(*polls, **asked)["t"][-1]
    assert (row["unclean"], row["is_last_known_leader"]) == (None, None)
    # A broker that is back changes nothing of them.
    back = [
        DOWN | {"isr": [], "offline_replicas": [2]},
        DOWN | {"isr": []},
        state(leader, 6, isr=str(leader)),
    ]
    assert_as_the_rules_say(history_of(*({"t": each} for each in back), **asked))
    assert changes(*({"t": each} for each in back), **asked)["t"][-1]["is_last_known_leader"] == (
        leader == 1
    )


def test_who_is_in_neither_list_of_a_state_that_was_there_before_was_elected_unclean() -> None:
    """The poll between shows that the lists were those of a state that lasted."""
    polls = [{"t": DOWN | {"isr": []}}] * 2 + [{"t": state(2, 6, isr="2")}]
    asked = {"levels": (25, 1), "elr": "3/1"}
    assert_as_the_rules_say(history_of(*polls, **asked))
    (row,) = changes(*polls, **asked)["t"]
    assert (row["unclean"], row["is_last_known_leader"]) == ("suspected", False)


def test_epochs_are_upper_bounds_while_a_cluster_migrates_from_zookeeper() -> None:
    history = history_of(
        {"p": state(1, 5), "t": state(1, 5)}, {"p": state(2, 8), "t": state(1, 6, isr="13")}
    )
    rows = {row["topic"]: row for row in migrated(history)["gold.leader_changes"]}
    names = ("epoch_semantics", "reason", "changes_min", "changes_max")
    assert tuple(rows["p"][name] for name in names) == ("upper_bound", "unknown", 1, 3)
    assert tuple(rows["t"][name] for name in names) == ("upper_bound", "isr_shrink", 0, 0)


def test_epochs_that_rose_under_one_leader_are_no_churn() -> None:
    after = {
        "moved": state(2, 6, isr="23"),
        "shrunk": state(1, 6, isr="13"),
        "twice": state(1, 7, isr="1"),
        "step": state(1, 6),
        "away": state(1, 7),
    }
    rows = folded(history_of(dict.fromkeys(after, state(1, 5)), after, levels=(11, 0)))[0][
        "gold.leader_changes"
    ]
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


def test_no_leader_behind_a_missing_listener_is_no_change() -> None:
    assert not changes({"t": state(1, 5)}, {"t": state(-1, 5, error_code=72)}, {"t": state(1, 5)})


def test_reasons_look_at_all_that_a_broker_lost_in_a_poll() -> None:
    preferred = state(1, 5, replicas="213"), state(2, 6, replicas="213")
    alone = changes({"p": preferred[0]}, {"p": preferred[1]})
    assert alone["p"][0]["reason"] == "preferred"
    # Broker 1 has come back where it is preferred, or has lost another partition as only one that
    # failed does.
    for before, after in [(state(1, 5), state(1, 7)), (state(1, 5), state(3, 6))]:
        together = changes({"p": preferred[0], "t": before}, {"p": preferred[1], "t": after})
        assert together["p"][0]["reason"] == "unknown"
    # One step under the same leader is no failure.
    together = changes({"p": preferred[0], "t": state(1, 5)}, {"p": preferred[1], "t": state(1, 6)})
    assert [row["reason"] for row in (*together["p"], *together["t"])] == ["preferred", "unknown"]
    # Nor are two where shrinks raise the epoch and two have left the ISR.
    shrunk = {"p": preferred[1], "t": state(1, 7, isr="1")}
    together = changes({"p": preferred[0], "t": state(1, 5)}, shrunk, levels=(11, 0))
    assert [row["reason"] for row in (*together["p"], *together["t"])] == [
        "preferred",
        "isr_shrink",
    ]
    # In another poll it is another matter.
    later = changes(
        {"p": preferred[0], "t": state(1, 5)},
        {"p": preferred[1], "t": state(1, 5)},
        {"t": state(3, 6)},
    )
    assert [row["reason"] for row in (*later["p"], *later["t"])] == ["preferred", "failover"]


def test_a_leader_that_lost_to_an_election_did_not_fail() -> None:
    """Polls saw 2 and then 3: 1, the preferred one, may have led in between, and have failed."""
    end = [state(2, 5), state(3, 7, isr="23")]
    history = history_of({"t": end[0]}, {"t": end[1]})
    (poll,) = (
        poll
        for poll in GoldInput.of(history.rows, None, "s/000000000001", BEGIN).polls()
        if poll.over.partitions
    )
    levels = Levels(25, 0, 25)
    assert failed_leaders(poll.began.partitions, levels) == set()
    once = history_of({"t": end[0]}, {"t": state(3, 6, isr="3")})
    (poll,) = (
        poll
        for poll in GoldInput.of(once.rows, None, "s/000000000001", BEGIN).polls()
        if poll.over.partitions
    )
    assert failed_leaders(poll.began.partitions, levels) == {2}


def test_time_without_a_leader_is_bounded_by_the_states_around() -> None:
    up, down = state(1, 4, isr="1"), DOWN
    rows = changes({"t": up}, {"t": down}, {"t": down}, {"t": state(1, 6, isr="1")})["t"]
    assert [row["reason"] for row in rows] == ["offline", "recovery"]
    # Without a leader in the second and the third poll: from after the first was sent to the
    # fourth's answer.
    assert (rows[1]["leaderless_ms_min"], rows[1]["leaderless_ms_max"]) == (9_900, 30_100)


def test_an_id_is_the_md5_of_place_and_poll() -> None:
    # printf "id-prod\nt\nid1\n0\ns/000000000001" | md5sum
    (row,) = changes({"t": state(2, 5)}, {"t": state(1, 6)})["t"]
    assert row["id"] == "ba03a5163335e86b8c9b50cfb19a9afc"
    (row,) = changes(
        {"t": state(2, 5) | {"topic_id": None}}, {"t": state(1, 6) | {"topic_id": None}}
    )["t"]
    assert row["id"] == "d88088161615772349f84799b864b2f7"


def test_balance_has_a_row_only_when_numbers_change() -> None:
    history = history_of(
        {"t": state(1, 5), "u": state(2, 5)},
        {"t": state(2, 6), "u": state(1, 6)},
        {"t": state(2, 6), "u": state(1, 6, isr="12")},
    )
    rows = folded(history)[0]["gold.leader_balance"]
    found = [
        (row["broker_id"], row["poll"][-1], row["leads"], row["preferred_for"], row["imbalance"])
        for row in rows
    ]
    # Both lead one as before; broker 1, preferred for both, has lost one of them and won the other.
    assert sorted(found) == [(1, "0", 1, 2, 0.5), (2, "0", 1, 0, None)]
