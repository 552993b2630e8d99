"""Whose a round is that was planned and not done, and who has to give way."""

from jobs.rounds import plan as rounds
from jobs.rounds.plan import Rounds, Step, overtaken_by, unfinished

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


def test_old_states_are_replaced_though_another_history_has_every_other_round(monkeypatch) -> None:
    """Rounds of polls wake those of groups, so that the two take turns: one of them has odd numbers
    alone.
    """
    written = {"appended": [], "whole": []}
    monkeypatch.setattr(
        rounds, "append_rows", lambda *_, **__: written["appended"].append(step.round)
    )
    monkeypatch.setattr(
        rounds, "replace_rows", lambda *_, number, **__: written["whole"].append(number)
    )
    of_polls = object.__new__(Rounds)
    vars(of_polls).update(
        _spark=None, _lake=None, _done=1, _other_states={}, histories=frozenset(ALL)
    )
    for number in range(3, 101, 2):
        step = planned(number, "a")
        of_polls.done(step, [])
    assert written["whole"] == [21, 41, 61, 81]
    assert len(written["appended"]) == 45
