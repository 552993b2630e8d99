"""What a watcher asks of brokers of each age, and what it makes of their answers: of two that speak
bytes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import pytest

from metadata_source.errors import LogError
from metadata_source.lineage import OPEN
from metadata_source.logs.topic.positions import LogExtent, LogPosition
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import parse_group_log
from tests.support.group_log import log_of
from tests.support.log_brokers import (
    DENIED,
    DESCRIBE,
    FETCH,
    KAFKA_2_7,
    KAFKA_4_3,
    NOT_TOLD,
    TOPIC,
    UNKNOWN_TOPIC,
    Brokers,
    commit_of,
    group_of,
)

FIRST_POLL = ["no topic", "no topic"]
"""Nothing is known yet: both brokers are asked."""

Make: TypeAlias = Callable[[], LogWatcher]


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    with made.listening():
        yield made


@pytest.fixture
def watcher(brokers: Brokers) -> Iterator[Make]:
    """Makes watchers, and closes them."""
    made: list[LogWatcher] = []

    def one() -> LogWatcher:
        cluster = parse_group_log({"kafka.bootstrap.servers": brokers.nodes.servers}).clusters[0]
        made.append(LogWatcher(cluster, TOPIC, 2_000, log_of(TOPIC).has_news))
        return made[-1]

    yield one
    for each in made:
        each.close()


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


@pytest.mark.parametrize(("allowed", "newest"), [(NOT_TOLD, KAFKA_4_3), (0, 7)])
@pytest.mark.parametrize(("fetch_error", "is_allowed"), [(0, True), (1, True), (DENIED, False)])
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


# --- waiting for what comes ---

AT_END = LogPosition("id", "AAAAAAAAAAAAAAAAAAAAAQ", {0: 100, 1: 101, 2: 102})


def later(seconds: float, call: Callable[..., object], *args: object) -> None:
    threading.Timer(seconds, call, args).start()


def news(one: LogWatcher) -> LogExtent:
    """What comes within five seconds, whatever comes before it."""
    deadline = time.monotonic() + 5
    while (found := one.wait(AT_END, 1.0)) is None:
        assert time.monotonic() < deadline
    return found


def timed(wait: Callable[[], LogExtent | None]) -> tuple[LogExtent | None, float]:
    began = time.monotonic()
    return wait(), time.monotonic() - began


def test_a_quiet_log_costs_one_fetch_of_each_leader_while_it_is_waited_for(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.nodes.asked.clear()
    found, took_s = timed(lambda: one.wait(AT_END, 0.5))
    assert (found, brokers.held_ms) == (None, {500})
    assert 0.4 < took_s < 2
    assert brokers.nodes.keys() == [FETCH, FETCH]
    assert sorted(brokers.fetched, key=len) == [{1: 101}, {0: 100, 2: 102}]


@pytest.mark.parametrize("partition", [0, 1])
def test_a_record_of_a_group_ends_the_waiting(
    brokers: Brokers, watcher: Make, partition: int
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    later(0.3, brokers.append, partition, group_of("g"))
    found, took_s = timed(lambda: one.wait(AT_END, 5.0))
    assert found is not None
    assert found.ends == {0: 100, 1: 101, 2: 102} | {partition: 101 + partition}
    assert 0.2 < took_s < 2, "though the other leader holds its fetch for five seconds"
    # With the next waiting the one that was held is not asked again.
    count = len(brokers.fetched)
    assert one.wait(replace(AT_END, next=found.ends), 0.2) is None
    assert len(brokers.fetched) == count + 1


def test_commits_and_markers_are_no_news_and_come_with_what_is(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.append(0, commit_of("g"), commit_of("h"))
    brokers.append(0, (b"\0\2\0\1", bytes(6)), control=True)
    assert one.wait(AT_END, 0.5) is None
    assert one.wait(AT_END, 0.5) is None
    assert {0: 103, 2: 102} in brokers.fetched, "what was no news is not fetched again"
    brokers.append(1, commit_of("h"), group_of("h"))
    assert news(one).ends == {0: 103, 1: 103, 2: 102}


def test_an_end_that_falls_back_is_no_end_before_another_look(
    brokers: Brokers, watcher: Make
) -> None:
    """A leader that is new may not know yet all that is committed (KIP-207)."""
    one = watcher()
    one.ask_extent(AT_END)
    brokers.behind[2] = 3
    brokers.append(0, group_of("g"))
    assert news(one).ends == {0: 101, 1: 101, 2: 102}


def test_a_leader_that_hangs_keeps_nobody_s_news(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.silent = {0}
    later(0.2, brokers.append, 1, group_of("g"))
    found, took_s = timed(lambda: one.wait(AT_END, 5.0))
    assert found is not None
    assert took_s < 2


def test_more_than_an_answer_is_worth_a_batch_whatever_it_is(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.append(2, *[(commit_of("g")[0], bytes(100_000))] * 5)
    found = one.wait(AT_END, 5.0)
    assert found is not None
    assert found.ends[2] == 107


def test_a_batch_that_cannot_be_read_is_news(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.append(2, commit_of("g"))
    brokers.logs[2][0] = brokers.logs[2][0][:-1] + b"?"
    assert one.wait(AT_END, 5.0) is not None


@pytest.mark.parametrize("moved", [0, 1])
def test_a_log_is_looked_at_again_where_another_broker_leads(
    brokers: Brokers, watcher: Make, moved: int
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    later(0.2, brokers.lead, moved, 1 - moved)
    with pytest.raises(LogError, match=r"broker_error: 127.0.0.1:\d+: error (6|74)"):
        one.wait(AT_END, 5.0)
    one.ask_extent(AT_END)
    brokers.append(moved, group_of("g"))
    assert news(one).ends[moved] == 101 + moved


def test_a_leader_that_is_gone_makes_for_a_look_and_keeps_nobody_s_news(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    later(0.2, brokers.nodes.kill, 1)
    with pytest.raises(LogError, match="unreachable"):
        one.wait(AT_END, 5.0)
    assert one.ask_extent(AT_END).problem is not None
    brokers.append(0, group_of("g"))
    assert news(one).ends == {0: 101, 2: 102}


def test_nothing_is_waited_for_before_a_look(watcher: Make) -> None:
    with pytest.raises(LogError, match="no_leader"):
        watcher().wait(AT_END, 5.0)


def test_a_leader_that_throttles_is_left_alone_for_as_long(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.throttle_ms = 700
    assert one.wait(AT_END, 5.0) is None
    assert one.wait(AT_END, 5.0) is None
    count, brokers.throttle_ms = len(brokers.fetched), 0
    found, took_s = timed(lambda: one.wait(AT_END, 0.4))
    assert (found, len(brokers.fetched)) == (None, count)
    assert took_s > 0.3
    brokers.append(0, group_of("g"))
    assert news(one).ends[0] == 101


def test_waiting_ends_when_it_is_interrupted(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    later(0.3, one.interrupt)
    found, took_s = timed(lambda: one.wait(AT_END, 5.0))
    assert found is None
    assert took_s < 1
