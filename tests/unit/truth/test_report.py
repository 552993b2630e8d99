"""All that should not be is a fault."""

from tests.support.small_log import second
from truth.chaos import Entry
from truth.compare import (
    EpochScore,
    StateScore,
)
from truth.compare_log import LogScore
from truth.report import Verdict, failed_on_nodes, failed_steps


def test_a_step_that_failed_is_a_fault():
    journal = [
        Entry("cancel", "cancel", (), second(1), second(2), error) for error in (None, "timed out")
    ]
    assert failed_steps(journal) == ["cancel: timed out"]
    verdict = Verdict(
        "4.3.1",
        1,
        "",
        StateScore(),
        StateScore(),
        EpochScore(),
        {},
        {},
        {},
        ["groups: never answered"],
        failed_steps(journal),
    )  # fmt: skip
    assert verdict.faults == [
        "asked beside polls, groups: never answered",
        "a step failed: cancel: timed out",
    ]
    stopped = Entry("stop", "stop 1", (1,), second(1), second(2), "it still runs")
    assert failed_on_nodes([*journal, stopped]) == ["stop 1: it still runs"]


def test_what_the_history_of_a_log_lacks_or_has_besides_is_a_fault() -> None:
    score = LogScore()
    score.compare("states", [("t", 0, 1)], [("t", 0, 1)])
    assert score.faults == []
    score.compare("states", [("t", 0, 1), ("t", 0, 1), ("t", 0, 3)], [("t", 0, 1), ("t", 0, 2)])
    assert score.faults == [
        "states: something is there twice",
        "states: history lacks ('t', 0, 2)",
        "states: the log lacks ('t', 0, 3)",
    ]
    assert str(score) == "2 states; 3 faults"
