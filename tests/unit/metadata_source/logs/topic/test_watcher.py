"""What a watcher asks of brokers of each age, and what it makes of their answers: of two that speak
bytes.
"""

import pytest

from metadata_source.errors import LogError
from metadata_source.lineage import OPEN
from metadata_source.logs.topic.positions import LogExtent, LogPosition
from tests.support.for_each import for_each
from tests.support.log_brokers import (
    DENIED,
    DESCRIBE,
    KAFKA_2_7,
    KAFKA_4_3,
    NOT_TOLD,
    TOPIC,
    UNKNOWN_TOPIC,
    Brokers,
    Make,
)

FIRST_POLL = ["no topic", "no topic"]
"""Nothing is known yet: both brokers are asked."""


def test_a_look_at_a_log(brokers: Brokers, watcher: Make) -> None:
    lineage = ((5, 60), (7, OPEN))
    seen = watcher().ask_extent(
        LogPosition(
            "id", None, {0: 50, 1: 70, 2: 80}, {0: ((5, 50),), 1: ((7, 70),), 2: ((5, 80),)}
        )
    )
    assert seen == LogExtent(
        "id",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        frozenset({0, 1, 2}),
        {0: 0, 1: 0, 2: 0},
        {0: 100, 1: 101, 2: 102},
        {0: lineage, 1: ((7, OPEN),), 2: lineage},
    )
    assert brokers.asked == [*FIRST_POLL, "the topic", "epoch 6 of 0", "epoch 6 of 2"]


def test_a_leader_says_once_what_was_before_it(brokers: Brokers, watcher: Make) -> None:
    one, position = watcher(), LogPosition("id", None, {0: 50}, {0: ((5, 50),)})
    assert one.ask_extent(position).epochs[0] == one.ask_extent(position).epochs[0]
    assert brokers.asked.count("epoch 6 of 0") == 1


def test_brokers_before_2_8_are_not_asked_by_name_and_tell_no_ids(
    brokers: Brokers, watcher: Make
) -> None:
    brokers.newest = KAFKA_2_7
    seen = watcher().ask_extent()
    assert (seen.topic_id, seen.whole) == (None, True)
    assert brokers.asked[:3] == [*FIRST_POLL, "all topics"]


def test_before_2_4_no_epoch_is_believed(brokers: Brokers, watcher: Make) -> None:
    brokers.newest = 8
    seen = watcher().ask_extent(LogPosition("id", None, {0: 50}, {0: ((5, 50),)}))
    assert set(seen.epochs.values()) == {()}
    assert brokers.asked == [*FIRST_POLL, "all topics"]


@for_each(("allowed", "newest"), [(NOT_TOLD, KAFKA_4_3), (0, 7)])
@for_each(("fetch_error", "is_allowed"), [(0, True), (1, True), (DENIED, False)])
def test_where_nothing_says_what_is_allowed_a_fetch_does(
    brokers: Brokers,
    watcher: Make,
    allowed: int,
    newest: int,
    fetch_error: int,
    *,
    is_allowed: bool,
) -> None:
    brokers.allowed, brokers.newest, brokers.fetch_error = allowed, newest, fetch_error
    if is_allowed:
        assert watcher().ask_extent().whole
    else:
        with pytest.raises(LogError, match=f"not_allowed: READ on topic {TOPIC} is missing"):
            watcher().ask_extent()
    assert "fetch" in brokers.asked


def test_what_is_allowed_is_believed_where_it_is_told(brokers: Brokers, watcher: Make) -> None:
    brokers.allowed = DESCRIBE
    with pytest.raises(LogError, match="not_allowed: READ on topic"):
        watcher().ask_extent()
    assert "fetch" not in brokers.asked


@pytest.mark.parametrize("newest", [KAFKA_2_7, KAFKA_4_3])
def test_a_topic_that_is_not_listed_is_not_there_or_may_not_be_seen(
    brokers: Brokers, watcher: Make, newest: int
) -> None:
    brokers.newest, brokers.is_told, brokers.fetch_error = newest, False, UNKNOWN_TOPIC
    assert watcher().ask_extent() == LogExtent("id")
    brokers.fetch_error = DENIED
    with pytest.raises(LogError, match="not_allowed"):
        watcher().ask_extent()


def test_beside_an_error_operations_mean_nothing(brokers: Brokers, watcher: Make) -> None:
    """A topic that is not there has none (Sarama's MockBroker answers 0)."""
    brokers.topic_error = brokers.fetch_error = UNKNOWN_TOPIC
    brokers.allowed = brokers.partitions = 0
    assert watcher().ask_extent().partitions == frozenset()
    brokers.fetch_error = DENIED
    with pytest.raises(LogError, match="not_allowed: READ on topic"):
        watcher().ask_extent()


def test_a_leader_that_does_not_answer_hides_its_own_partitions_alone(
    brokers: Brokers, watcher: Make
) -> None:
    brokers.nodes.kill(1)
    seen = watcher().ask_extent()
    assert (seen.whole, seen.begins, seen.ends) == (False, {0: 0, 2: 0}, {0: 100, 2: 102})
    brokers.partitions = 0
    assert watcher().ask_extent().partitions == frozenset()
    brokers.partitions, brokers.fenced = 3, {2}
    assert watcher().ask_extent().ends == {0: 100}


def test_without_any_leader_it_is_said_why(brokers: Brokers, watcher: Make) -> None:
    brokers.advertised = dict.fromkeys((0, 1), ("127.0.0.1", 1))
    with pytest.raises(LogError, match=r"unreachable: 127.0.0.1:1: connection refused"):
        watcher().ask_extent()


def test_a_connection_that_was_closed_meanwhile_is_made_again(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    assert one.ask_extent().whole
    before = len(brokers.nodes.connected)
    brokers.nodes.hang_up(1)
    assert one.ask_extent().whole
    assert brokers.nodes.connected[before:] == [1]


def test_a_time_to_start_at_that_a_leader_does_not_answer(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    seen = one.ask_extent()
    assert one.starting(seen, 1_763_802_000_000) == seen.ends
    brokers.fenced = {1}
    with pytest.raises(LogError, match="no_leader"):
        one.starting(seen, 1_763_802_000_000)
