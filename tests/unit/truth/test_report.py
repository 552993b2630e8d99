"""All that should not be is a fault."""

from dataclasses import replace

from tests.support.small_log import second
from truth.chaos import Entry
from truth.compare import (
    EpochScore,
    StateScore,
)
from truth.compare_events import IsrChange
from truth.compare_log import LogScore
from truth.model.states import TopicLife, Truth
from truth.report import Verdict, failed_on_nodes, failed_steps, with_ids


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


def test_rows_of_topics_without_ids_get_those_of_the_topics_of_then() -> None:
    lives = [
        TopicLife("t", "t@0", second(0), second(10)),
        TopicLife("t", "t@1", second(12), None),
        TopicLife("u", "u@0", second(0), None),
    ]
    truth = Truth(topics={life.topic_id: life for life in lives})
    row = IsrChange("t", None, 0, 1, "left", None, second(4), second(5))  # type: ignore[arg-type]
    rows = [
        row,
        replace(row, began_before=second(13)),
        replace(row, topic="u"),
        replace(row, topic_id="its own"),
    ]
    assert [each.topic_id for each in with_ids(rows, truth, lambda each: each.began_before)] == [
        "t@0",
        "t@1",
        "u@0",
        "its own",
    ]
