"""Fetches that leaders hold until something comes, of two brokers that speak bytes."""

from dataclasses import replace

import pytest

from metadata_source.errors import LogError
from metadata_source.logs.topic.positions import LogExtent, LogPosition
from metadata_source.logs.topic.watcher import LogWatcher
from tests.support.log_brokers import FETCH, Brokers, Make, commit_of, group_of

AT_END = LogPosition("id", "AAAAAAAAAAAAAAAAAAAAAQ", {0: 100, 1: 101, 2: 102})

LONG_S = 60.0
"""Longer than any test may take: what ends the waiting is not the time."""
BOTH = 2
"""Leaders of the topic's partitions."""


def news(one: LogWatcher) -> LogExtent:
    """What comes, whatever comes before it."""
    while (found := one.wait(AT_END, LONG_S)) is None:
        pass
    return found


def test_a_quiet_log_costs_one_fetch_of_each_leader_while_it_is_waited_for(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.nodes.asked.clear()
    assert one.wait(AT_END, 0.5) is None
    assert brokers.held_ms == {500}
    assert brokers.nodes.keys() == [FETCH, FETCH]
    assert sorted(brokers.fetched, key=len) == [{1: 101}, {0: 100, 2: 102}]


@pytest.mark.parametrize("partition", [0, 1])
def test_a_record_of_a_group_ends_the_waiting(
    brokers: Brokers, watcher: Make, partition: int
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.once_asked(brokers.append, partition, group_of("g"))
    found = one.wait(AT_END, LONG_S)
    assert found is not None
    assert found.ends == {0: 100, 1: 101, 2: 102} | {partition: 101 + partition}
    assert brokers.answered == [partition % 2], "the other leader holds its fetch"
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
    brokers.once_asked(brokers.append, 1, group_of("g"))
    assert one.wait(AT_END, LONG_S) is not None
    assert brokers.answered == [1]


def test_more_than_an_answer_is_worth_a_batch_whatever_it_is(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.append(2, *[(commit_of("g")[0], bytes(100_000))] * 5)
    found = one.wait(AT_END, LONG_S)
    assert found is not None
    assert found.ends[2] == 107


def test_a_batch_that_cannot_be_read_is_news(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.append(2, commit_of("g"))
    brokers.logs[2][0] = brokers.logs[2][0][:-1] + b"?"
    assert one.wait(AT_END, LONG_S) is not None


@pytest.mark.parametrize("moved", [0, 1])
def test_a_log_is_looked_at_again_where_another_broker_leads(
    brokers: Brokers, watcher: Make, moved: int
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.once_asked(brokers.lead, moved, 1 - moved)
    with pytest.raises(LogError, match=r"broker_error: 127.0.0.1:\d+: error (6|74)"):
        one.wait(AT_END, LONG_S)
    one.ask_extent(AT_END)
    brokers.append(moved, group_of("g"))
    assert news(one).ends[moved] == 101 + moved


def test_a_leader_that_is_gone_makes_for_a_look_and_keeps_nobody_s_news(
    brokers: Brokers, watcher: Make
) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.once_asked(brokers.nodes.kill, 1)
    with pytest.raises(LogError, match="unreachable"):
        one.wait(AT_END, LONG_S)
    assert one.ask_extent(AT_END).problem is not None
    brokers.append(0, group_of("g"))
    assert news(one).ends == {0: 101, 2: 102}


def test_nothing_is_waited_for_before_a_look(watcher: Make) -> None:
    with pytest.raises(LogError, match="no_leader"):
        watcher().wait(AT_END, 5.0)


def test_a_leader_that_throttles_is_left_alone_for_as_long(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.throttle_ms = 60_000
    while len(brokers.fetched) < BOTH:
        assert one.wait(AT_END, 0.1) is None
    assert one.wait(AT_END, 0.4) is None
    assert len(brokers.fetched) == BOTH, "each leader was asked once"


def test_a_leader_that_throttled_is_asked_afterwards(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.throttle_ms = 50
    while len(brokers.fetched) <= BOTH:
        assert one.wait(AT_END, 0.1) is None
    brokers.throttle_ms = 0
    brokers.append(0, group_of("g"))
    assert news(one).ends[0] == 101


def test_waiting_ends_when_it_is_interrupted(brokers: Brokers, watcher: Make) -> None:
    one = watcher()
    one.ask_extent(AT_END)
    brokers.once_asked(one.interrupt)
    assert one.wait(AT_END, LONG_S) is None
    assert brokers.answered == []
