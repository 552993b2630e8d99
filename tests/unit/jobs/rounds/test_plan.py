"""Whose a round is that was planned and not done, and who has to give way."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pytest

from jobs.rounds import plan as rounds
from jobs.rounds.lost_rounds import LostRound
from jobs.rounds.plan import (
    OvertakenError,
    Rounds,
    State,
    Step,
    kept_since,
    overtaken_by,
    steps_of,
    unfinished,
    with_rows,
)
from jobs.rules.arrow import rows_of
from schemas.internal import ROUNDS, STATE, retention_of
from schemas.silver import POLL_GAPS
from tests.support.memory_lake import MemoryLake, without_spark

AT = datetime(2026, 11, 1, tzinfo=UTC)

ALL = ("silver", "isr_shrink", "leader_churn")


def started(number: int, writer: str, *histories: str) -> Step:
    return Step(number, "started", frozenset(histories or ALL), writer)


def planned(number: int, writer: str, *histories: str) -> Step:
    return Step(number, "planned", frozenset(histories or ALL), writer, {"clusters": {}})


def numbers(steps: list[Step], *histories: str, done: dict[str, int] | None = None) -> list[int]:
    return [step.round for step in unfinished(steps, done or {}, histories or ALL)]


def test_planned_rounds_that_are_not_done_are_unfinished_in_order() -> None:
    steps = [
        started(1, "a"),
        planned(4, "a", "isr_shrink"),
        planned(2, "a", "silver"),
        planned(3, "a", "silver"),
    ]
    assert numbers(steps, done={"silver": 2}) == [3, 4]
    assert numbers(steps[::-1], done={"silver": 2}) == [3, 4]
    assert numbers(steps, done={"silver": 3}) == [4]


def test_of_the_rounds_of_a_history_that_were_given_up_the_last_one_is_unfinished() -> None:
    """Its plan has what the others took, and its rows may be in some tables."""
    steps = [started(1, "a"), planned(2, "a"), planned(3, "a"), started(4, "b"), planned(5, "b")]
    assert numbers(steps) == [5]
    assert numbers(steps[:3]) == [3]
    part = [planned(2, "a"), planned(3, "b", "silver")]
    assert (numbers(part), numbers(part, "isr_shrink")) == ([3], []), (
        "what gold has not had, a later round takes"
    )
    assert numbers([*steps[:3], started(4, "b"), planned(5, "a")]) == [3], (
        "that of a writer that was overtaken is none"
    )


def test_a_round_is_done_once_one_of_its_histories_is() -> None:
    """All its states come with one commit, and those of gold not before silver has something to
    say.
    """
    steps = [started(1, "a"), planned(2, "a"), planned(3, "a")]
    assert numbers(steps, done={"silver": 2}) == [3]
    assert numbers(steps, done={"silver": 2, "rebalance_history": 3}) == [3]


def test_a_later_round_is_done_after_the_ones_before() -> None:
    assert numbers(
        [planned(2, "a", "silver"), planned(3, "b", "isr_shrink")], done={"silver": 4}
    ) == [3]


def test_who_takes_over_finishes_what_was_planned_before() -> None:
    assert numbers([started(1, "a"), planned(2, "a"), started(3, "b")]) == [2]


def test_what_was_planned_after_the_writer_was_overtaken_is_nobodys() -> None:
    assert numbers([started(1, "a"), started(2, "b"), planned(3, "a"), planned(4, "b")]) == [4]


def test_a_round_of_which_one_history_was_taken_over_is_nobodys() -> None:
    steps = [started(1, "a"), started(2, "b", "isr_shrink"), planned(3, "a")]
    assert numbers(steps) == []


def test_rounds_of_other_histories_are_others_to_finish() -> None:
    steps = [started(1, "a", "silver"), started(2, "b", "isr_shrink"), planned(3, "a", "silver")]
    steps.append(planned(4, "b", "isr_shrink"))
    assert numbers(steps, "silver") == [3]
    assert numbers(steps, "isr_shrink") == [4]
    assert numbers(steps, "leader_churn") == []
    assert numbers([started(1, "a"), planned(2, "a")], "isr_shrink") == [2], (
        "who makes a part of it finishes it"
    )


def test_the_steps_of_long_ago_need_not_be_there() -> None:
    assert numbers([planned(9, "a")]) == [9]


def test_a_writer_is_overtaken_by_another_that_starts_one_of_its_histories() -> None:
    steps = [planned(2, "b", "silver"), started(3, "a"), started(4, "b", "isr_shrink")]
    assert overtaken_by(steps, "a", ["leader_churn", "isr_shrink"]) == steps[-1]
    assert overtaken_by(steps, "a", ["silver"]) is None
    assert overtaken_by(steps, "b", ["isr_shrink"]) == steps[1]
    assert overtaken_by([], "a", ALL) is None


def test_rounds_of_some_numbers_are_those_of_a_history() -> None:
    steps = [planned(4, "a", "silver"), started(3, "a"), planned(2, "a"), planned(5, "b", "x")]
    assert [step.round for step in steps_of(steps, {2, 3, 4, 5}, ["silver"])] == [2, 4]
    assert steps_of(steps, {9}, ALL) == []


# --- in a lake ---


@pytest.fixture
def lake() -> Iterator[MemoryLake]:
    with without_spark():
        yield MemoryLake()


def job(lake: MemoryLake, *histories: str, others: Mapping[str, list[str]] | None = None) -> Rounds:
    return Rounds(None, lake, histories or ALL, others or {})


def row(history: str, number: int, cluster: str = "c") -> State:
    return {"history": history, "cluster": cluster, "round": number, "memory": "{}"}


def in_lake(lake: MemoryLake) -> list[tuple[int, str]]:
    return [(step["round"], step["step"]) for step in rows_of(lake.rows(ROUNDS))]


def test_jobs_share_numbers_without_holes(lake: MemoryLake) -> None:
    """Each looks for the next one from the last that it knows, which others may have taken."""
    one, other = job(lake, "silver"), job(lake, "group_lag")
    assert other.plan({"a": 1}, AT).round == 3
    assert one.plan({"b": [2]}, AT).round == 4
    assert other.plan({}, AT).round == 5
    assert in_lake(lake) == [(1, "started"), (2, "started"), *((n, "planned") for n in (3, 4, 5))]
    (_, _, step, *_) = rows_of(lake.rows(ROUNDS))
    assert (step["takes"], step["histories"], step["at"]) == ('{"a":1}', ["group_lag"], AT)


def test_a_job_that_starts_finds_what_is_left_of_its_histories(lake: MemoryLake) -> None:
    before = job(lake)
    done, left = before.plan({"n": 1}, AT), before.plan({"n": 2}, AT)
    before.done(done, [row("silver", done.round)])
    assert job(lake).to_finish == [left]
    assert left.takes == {"n": 2}
    assert job(lake, "group_lag").to_finish == []
    before.done(left, [row("silver", left.round)])
    assert job(lake).to_finish == []


def test_a_job_looks_back_to_the_slowest_of_its_histories(lake: MemoryLake) -> None:
    """A round of gold alone may be older than the last one of silver."""
    gold, silver = job(lake, "isr_shrink"), job(lake, "silver")
    left, done = gold.plan({}, AT), silver.plan({}, AT)
    silver.done(done, [row("silver", done.round)])
    assert job(lake).to_finish == [left]


def test_a_job_ends_once_another_has_taken_over(lake: MemoryLake) -> None:
    before = job(lake)
    job(lake, "group_lag")
    before.plan({}, AT)
    job(lake, "isr_shrink")
    with pytest.raises(OvertakenError, match=r"^another run \(.*\) makes isr_shrink of /memory"):
        before.plan({}, AT)


def test_a_round_that_a_table_lost_is_known_with_its_plan(
    lake: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = job(lake)
    steps = [before.plan({"n": n}, AT) for n in range(3)]
    for step in steps:
        before.done(step, [row(history, step.round) for history in ALL])
    lost = LostRound(steps[1].round, 2, ("silver.poll_gaps",), is_last=True)
    monkeypatch.setattr(rounds, "lost_rounds", lambda _: [lost])
    assert job(lake).lost == [(steps[1], lost)]


def test_what_is_noted_as_done_are_the_rows_of_the_round(lake: MemoryLake) -> None:
    of = job(lake, "silver", others={"silver": ["cluster_log"]})
    step = of.plan({}, AT)
    number = step.round
    kept = row("silver", 1, "quiet")
    of.done(
        step,
        [row("silver", number), row("cluster_log", number), row("group_lag", number), kept],
        [POLL_GAPS],
    )
    found = {(each["history"], each["cluster"]) for each in rows_of(lake.rows(STATE))}
    assert found == {("silver", "c"), ("cluster_log", "c")}
    assert lake.commits[STATE][-1].info["userMetadata"] == "round 2 wrote silver.poll_gaps"


def test_whether_a_table_has_a_round(lake: MemoryLake) -> None:
    of = job(lake)
    step = of.plan({}, AT)
    of.done(step, [row("silver", step.round)])
    assert not of.is_begun(step), "its plan and its states are none of its rows"
    lake.write(POLL_GAPS, lake.rows(POLL_GAPS), None, {"userMetadata": f"round {step.round}"})
    assert of.is_begun(step)


def test_old_states_are_replaced_though_another_history_has_every_other_round(
    lake: MemoryLake,
) -> None:
    """Rounds of polls wake those of groups, so that the two take turns: one of them has odd numbers
    alone. Rows of other histories stay.
    """
    of_polls, of_groups = job(lake), job(lake, "group_lag")
    lake.append(STATE, [row("group_lag", 1), row("silver", 1, "quiet")])
    whole = []
    for _ in range(50):
        step = of_polls.plan({}, AT)
        of_groups.plan({}, AT)
        of_polls.done(step, [row("silver", step.round), row("silver", 1, "quiet")])
        rows = rows_of(lake.rows(STATE))
        assert {(each["history"], each["cluster"]) for each in rows} == {
            *(("silver", "quiet"), ("silver", "c"), ("group_lag", "c"))
        }
        if len(rows) == 3 and step.round > 3:
            whole.append(step.round)
    assert whole == [21, 41, 61, 81, 101]


def test_rows_take_the_place_of_those_of_the_same_history_and_alias() -> None:
    one, other = row("silver", 1), row("silver", 2)
    assert with_rows({("silver", "c"): one, ("x", "c"): one}, [other]) == {
        ("silver", "c"): other,
        ("x", "c"): one,
    }


@pytest.mark.parametrize(("history", "kept"), [("silver", None), (retention_of("silver"), AT)])
def test_history_is_whole_from_when_retention_says(history: str, kept: datetime | None) -> None:
    assert kept_since({(history, ""): {"done_at": AT}}, "silver") == kept
