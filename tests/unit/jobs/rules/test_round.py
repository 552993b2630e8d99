"""Rounds of a cluster, from bronze to gold: however they are cut, they make what the plain rules
say.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.configuration.config import Thresholds
from jobs.rules.round import GOLD, SILVER, STATE, ClusterInput, RoundSettings, fold
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import State
from jobs.rules.takes import take
from metadata_source.kafka_constants import OFFSETS_TOPIC
from metadata_source.kinds import KINDS
from schemas import gold, silver
from tests.support.bronze_rows import bronze_rows
from tests.support.cluster_stage import ClusterStage
from tests.support.examples import examples
from tests.support.histories import START, Answer, RandomCluster
from tests.support.oracles import gold as oracle
from tests.support.oracles.isrs import FLAP_WINDOW, FLAPS
from tests.support.oracles.silver import expected_rows
from tests.support.silver_cases import answered, failed, led, poll, shown_by, shows
from tests.support.silver_lives import ALIAS, CLUSTER_ID, histories
from tests.support.stage import Row, comparable

EXAMPLES = examples(16)
TABLES = {
    table.full_name: table for table in (*silver.TABLES, *gold.ISR_TABLES, *gold.LEADER_TABLES)
}
ALL = RoundSettings(frozenset({SILVER, *GOLD}), Thresholds(FLAPS, FLAP_WINDOW), START)


class Lake(ClusterStage):
    """One cluster, and the polls that it has answered."""

    def __init__(self, answers: list[Answer], kind: str = "kafka") -> None:
        super().__init__(ALL)
        self.kind, self.bronze = kind, bronze_rows(ALIAS, answers)
        self.headers = headers_of(self.bronze)

    def round(self, until: int, most_polls: int, settings: RoundSettings = ALL) -> bool:
        """Take polls of the first `until`; whether there were any that no round had taken."""
        state, so_far = self.state, self.headers[:until]
        new = self.not_taken(so_far)
        if SILVER in settings.histories and len(new) == len(state.waiting):
            return False
        is_known = any(h["outcome"] == "ok" and h["cluster_id"] == CLUSTER_ID for h in so_far)
        claimed_id = CLUSTER_ID if is_known else None
        more = {"claimed_id": claimed_id, "most_polls": most_polls, "kind": self.kind}
        self.make(take(ALIAS, state, 1, new, **more), self.bronze, settings=settings)
        return True

    @property
    def all(self) -> dict[str, list[str]]:
        """Every row, states too, as text that can be compared."""
        states = [row | {"memory": json.loads(row["memory"])} for row in self.states.values()]
        return comparable(
            {table: list(rows.values()) for table, rows in self.tables.items()} | {STATE: states}
        )


def made(
    answers: list[Answer], cuts: list[int], most_polls: int = 1_000, kind: str = "kafka"
) -> Lake:
    lake = Lake(answers, kind)
    for _, until in pairwise(sorted({0, *cuts, len(answers)})):
        while lake.round(until, most_polls):
            pass
    return lake


def long_history() -> list[Answer]:
    return RandomCluster(ALIAS, 1, kinds=["configs", "elr", "reassignments"]).answers(40)


def assert_as_the_plain_rules_say(lake: Lake, answers: list[Answer]) -> None:
    expected = comparable(expected_rows(answers, ALIAS))
    found = lake.all
    assert {table for table in found if table.startswith("silver.")} == expected.keys()
    assert {table: found[table] for table in expected} == expected
    done, at = (lake.states[SILVER][name] for name in ("done_poll", "done_at"))
    if done is None:
        assert lake.states.keys() == {SILVER}
        return
    ends = silver.INTERVAL_ENDS
    rows = {
        table: [
            row if (row["superseded_poll"] or "~") <= done else row | dict.fromkeys(ends)
            for row in lake.tables[table].values()
            if row["first_poll"] <= done
        ]
        for table in (each.full_name for each in silver.SNAPSHOTS)
    }
    for table, of_table in oracle.expected_rows(rows, at).items():
        names = list(of_table[0]) if of_table else []
        made = [{name: row[name] for name in names} for row in lake.tables[table].values()]
        assert comparable({"rows": made}) == comparable({"rows": of_table}), table


# --- what a round says of itself ---


def states_of(*answers: Answer, cuts: Sequence[int] = ()) -> dict[str, Row]:
    return made(list(answers), list(cuts)).states


def test_a_state_says_how_far_a_history_is() -> None:
    answers = shown_by(1, shows(1), shows(2), {}, cluster_id=CLUSTER_ID)
    first, second, third = answers
    expected = {
        "done_poll": second.poll_id,
        "done_at": second.received_at,
        "last_poll": third.poll_id,
        "last_seen_at": third.received_at,
        "before_seen_at": second.received_at,
        "changed_poll": second.poll_id,
        "missing": ["t"],
        "told_by": "polls",
        "interval_ms": 30_000,
        "taken": {first.stream: 2},
        "parts": 1,
        "cluster_id": CLUSTER_ID,
    }
    for cuts in ([], [1, 2]):
        states = states_of(*answers, cuts=cuts)
        assert {name: states[SILVER][name] for name in expected} == expected
        for history in GOLD:
            names = "done_poll", "done_at"
            assert [states[history][name] for name in names] == [expected[name] for name in names]


def test_a_state_says_when_something_changed_last() -> None:
    answers = shown_by(1, shows(1), {}, {}, {}, cluster_id=CLUSTER_ID)
    for cuts in ([], [3]):
        states = states_of(*answers, cuts=cuts)
        assert states[SILVER]["changed_poll"] == answers[1].poll_id, "the topic had ended by then"


def test_a_state_counts_polls_that_came_to_nothing() -> None:
    good, bad, other, old = shown_by(
        1, shows(5), shows(5), shows(5), shows(4), cluster_id=CLUSTER_ID
    )
    other.cluster_id = "another"
    names = "failed_polls", "refused_polls", "stale_polls", "error_kinds", "waiting"

    def counts(*answers: Answer) -> list[object]:
        return [states_of(*answers)[SILVER][name] for name in names]

    assert counts(good, failed(bad), other) == [1, 1, 0, ["timeout"], []]
    assert counts(good, other) == [0, 1, 0, [], []]
    assert counts(good, failed(bad), old) == [1, 0, 1, ["timeout"], [old.poll_id]]


def test_a_state_says_when_to_fold_again_though_nothing_is_new() -> None:
    states = states_of(poll(0, 1, {"t": [led(1, 1, 2)]}, cluster_id=CLUSTER_ID))
    # Two polls after the one that showed an absence, and a moment.
    due = answered(2) + timedelta(microseconds=1)
    assert {history: states[history]["deadline"] for history in GOLD} == {
        "isr_shrink": due,
        "leader_churn": None,
    }


def test_of_the_first_answer_of_a_large_cluster_the_next_round_makes_gold() -> None:
    said = bronze_rows(ALIAS, shown_by(1, shows(1), cluster_id=CLUSTER_ID))
    for is_first in (False, True):
        given = ClusterInput(ALIAS, CLUSTER_ID, 4, said, {}, {}, is_first=is_first)
        states = {row["history"]: row for row in fold(given, ALL)[STATE]}
        assert states.keys() == ({SILVER} if is_first else {SILVER, *GOLD})
        assert states[SILVER]["parts"] == 4


def test_coordinators_are_told_once() -> None:
    shown = [{OFFSETS_TOPIC: [led(epoch, leader, 0)]} for epoch, leader in ((1, 1), (2, 2), (2, 2))]
    answers = [poll(n, 1, topics, cluster_id=CLUSTER_ID) for n, topics in enumerate(shown)]
    for cuts in ([], [1], [1, 2]):
        rows = made(answers, cuts).tables[silver.COORDINATORS.full_name].values()
        assert [(row["poll"][-1], row["leader"]) for row in rows] == [("0", 1), ("1", 2)]


# --- random lives ---


def cuts_of(answers: list[Answer]) -> st.SearchStrategy[list[int]]:
    """Anywhere, or after every poll."""
    every = list(range(len(answers)))
    return st.lists(st.sampled_from(every), max_size=8) | st.just(every)


@given(histories(mistaken_for=[None]), st.data())
@settings(max_examples=3 * EXAMPLES, suppress_health_check=list(HealthCheck))
def test_rounds_cut_anywhere_make_what_the_plain_rules_say(
    answers: list[Answer], data: st.DataObject
) -> None:
    whole = made(answers, [])
    assert_as_the_plain_rules_say(whole, answers)
    cuts, most_polls = data.draw(cuts_of(answers)), data.draw(st.integers(1, 40))
    assert made(answers, cuts, most_polls).all == whole.all


@given(
    histories(mistaken_for=[None]),
    st.data(),
    st.sampled_from([kind for kind in KINDS if kind != "kafka"]),
)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_rounds_of_other_kinds_cut_anywhere_make_the_same(
    answers: list[Answer], data: st.DataObject, kind: str
) -> None:
    whole = made(answers, [], kind=kind)
    assert made(answers, data.draw(cuts_of(answers)), kind=kind).all == whole.all
    rows = {
        table.full_name: list(whole.tables[table.full_name].values()) for table in TABLES.values()
    }
    nothing = KINDS[kind].columns
    if "isr" in nothing:
        assert not rows["gold.isr_changes"]
        assert not rows["gold.broker_incidents"]
        assert {row["level"] for row in rows["gold.isr_episodes"]} <= {"offline"}
        assert {row["reason"] for row in rows["gold.leader_changes"]} <= {
            "offline",
            "recovery",
            "unknown",
        }
    if "leader" in nothing:
        assert not any(
            rows[f"gold.{name}"] for name in ("leader_changes", "leader_balance", "isr_episodes")
        )


@given(histories(mistaken_for=[None]), st.lists(st.sampled_from([SILVER, *GOLD]), max_size=12))
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_histories_apart_are_those_made_together(answers: list[Answer], turns: list[str]) -> None:
    lake = Lake(answers)
    for history in [*turns, *[SILVER] * len(answers), *GOLD]:
        lake.round(len(answers), 4, replace(ALL, histories=frozenset({history})))
    assert lake.all == made(answers, []).all


def test_rows_are_stamped_with_when_the_round_was_planned() -> None:
    lake = Lake(long_history())
    lake.round(20, 1_000)
    first = {row["id"] for row in lake.tables["gold.isr_changes"].values()}
    later = START + timedelta(days=1)
    lake.round(40, 1_000, replace(ALL, at=later))
    rows = lake.tables["gold.isr_changes"].values()
    assert {row["updated_at"] for row in rows} == {START, later}
    assert all(row["updated_at"] == later for row in rows if row["id"] not in first)
    assert not any("updated_at" in row for row in lake.tables["gold.leader_balance"].values())


def test_a_cluster_that_migrates_has_no_exact_counts() -> None:
    answers = long_history()
    migrating, other = Lake(answers), Lake(answers)
    migrating.round(40, 1_000, replace(ALL, migrating=frozenset({ALIAS})))
    other.round(40, 1_000, replace(ALL, migrating=frozenset({"another"})))
    told, plain = (
        [row["epoch_semantics"] for row in each.tables["gold.leader_changes"].values()]
        for each in (migrating, other)
    )
    assert "exact" in plain
    assert told == ["upper_bound" if each == "exact" else each for each in plain]


def test_polls_that_bronze_has_not_kept_wait_no_more_once_a_person_believes_them() -> None:
    memory = State(cluster_id=CLUSTER_ID, waiting=("s/1", "s/2")).to_json()
    before = {
        "history": SILVER,
        "done_poll": None,
        "done_at": None,
        "changed_poll": None,
        "memory": json.dumps(memory),
    }
    for believe, waiting in ((False, 2), (True, 0)):
        rows = fold(
            ClusterInput(ALIAS, CLUSTER_ID, 1, [], {}, {SILVER: before}, believe=believe), ALL
        )
        (state,) = rows[STATE]
        assert (
            state["stale_polls"]
            == len(State.from_json(json.loads(state["memory"])).waiting)
            == waiting
        )
