"""Groups of clusters that are large and far away, over sockets: all within the budget, and what is
missing is named.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest

from benchmarks.far_cluster import HOST, FarCluster
from metadata_source.addresses import Address
from metadata_source.asking import Asking
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.threads import side_by_side
from metadata_source.transport import Connection
from tests.support.beside import Beside, beside

FAR_S = 0.04


@pytest.fixture
def near() -> Iterator[FarCluster]:
    """Six brokers; broker n leads partitions n and n + 6."""
    with FarCluster(6, round_trip_s=0.002, partitions=12, groups=1) as cluster:
        yield cluster


class Both(NamedTuple):
    """What polls a cluster, and what asks it beside."""

    poller: Poller
    asking: Asking


@contextmanager
def both_of(cluster: FarCluster) -> Iterator[Both]:
    """Groups have 10 s, which a busy machine keeps too."""
    options = parse(cluster.options)
    with (
        Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller,
        closing(poller.asking(10_000)) as asking,
    ):
        yield Both(poller, asking)


def ask(both: Both, seconds: float | None = None) -> Beside:
    """Poll, then ask for groups, in so many seconds."""
    poll = both.poller.poll()
    assert poll.metadata is not None, poll.error
    if seconds is not None:
        both.asking._timeout_s = seconds
    return beside(both.asking.answers(subject(("groups",), poll.metadata), both.poller.answerer))


def kept(both: Both) -> dict[Address, Connection]:
    """The connections over which questions went."""
    return dict(both.asking._connections._kept)


def told(enrichment: Beside) -> dict[str, dict]:
    return {group["group_id"]: group for row in enrichment.rows["groups"].values for group in row}


def names(cluster: FarCluster, *brokers: int) -> str:
    return ", ".join(f"{n} ({HOST}:{cluster.brokers[n].port})" for n in brokers)


def settle(cluster: FarCluster, counts: dict[int, int]) -> None:
    """Wait until the brokers have noticed how many connections they have."""
    end = time.monotonic() + 5
    while (found := {n: cluster.connected(n) for n in counts}) != counts:
        assert time.monotonic() < end, found
        time.sleep(0.01)


@pytest.mark.parametrize("is_secured", [False, True])
def test_fifty_far_brokers_are_asked_in_time(is_secured: bool) -> None:
    """One after the other they take 14 s, and 29 s with TLS and SCRAM."""
    with (
        FarCluster(50, round_trip_s=FAR_S, is_secured=is_secured) as cluster,
        both_of(cluster) as both,
    ):
        for _ in range(2):
            asked = ask(both)
            assert asked.outcomes == {"groups": "ok"}
            assert len(told(asked)) == 200
            assert {group["state"] for group in told(asked).values()} == {"Empty"}
        assert max(broker.connections for broker in cluster.brokers) <= 2, (
            "one for polls, one for questions"
        )


def test_connections_are_kept_between_polls_and_closed_at_the_end(near: FarCluster) -> None:
    with both_of(near) as both:
        assert ask(both).outcomes == {"groups": "ok"}
        first = kept(both)
        assert len(first) == 6
        assert ask(both).outcomes == {"groups": "ok"}
        assert kept(both) == first
        near.hang_up(4)
        assert ask(both).outcomes == {"groups": "ok"}, (
            "a connection that was closed meanwhile is made again"
        )
        assert [place for place, each in kept(both).items() if each != first[place]] == [
            (HOST, near.brokers[4].port)
        ]
    settle(near, dict.fromkeys(range(6), 0))


def test_a_broker_that_moves_gets_another_connection(near: FarCluster) -> None:
    with both_of(near) as both:
        assert ask(both).outcomes == {"groups": "ok"}
        first, before = kept(both), near.brokers[5].port
        near.start(5)
        assert near.brokers[5].port != before
        assert ask(both).outcomes == {"groups": "ok"}
        assert kept(both).keys() - first.keys() == {(HOST, near.brokers[5].port)}
        assert len(told(ask(both))) == 6
    settle(near, {5: 0})


def test_brokers_that_list_nothing_are_named_with_what_they_lead(near: FarCluster) -> None:
    with both_of(near) as both:
        assert ask(both).outcomes == {"groups": "ok"}
        near.stop(3)
        near.brokers[4].hangs_on = "ListGroupsRequest"
        near.hang_up(5)
        near.brokers[5].says = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        asked = ask(both, seconds=1.0)
    assert asked.rows == {}, (
        "what is not whole is not kept: groups that it does not list have not ended"
    )
    assert asked.outcomes["groups"].split("; ") == [
        f"failed: broker {names(near, 3)}: connection refused",
        f"broker {names(near, 4)}: no answer in time (1.0 s, see enrichTimeout)",
        f"broker {names(near, 5)}: not a Kafka broker: the answer begins with b'HTTP'",
        "no broker that answered leads __consumer_offsets partitions 3, 4, 5, 9, 10, 11",
    ]


def test_brokers_of_one_trouble_are_named_together(near: FarCluster) -> None:
    for each in (2, 3, 5):
        near.stop(each)
    with both_of(near) as both:
        said = ask(both).outcomes["groups"]
    assert said.startswith(
        f"failed: brokers {names(near, 2, 3, 5)}: connection refused; no broker that answered "
        "leads "
    )


def test_a_broker_that_leads_none_of_the_log_is_not_missed(near: FarCluster) -> None:
    near.partitions = 5
    near.stop(5)
    with both_of(near) as both:
        asked = ask(both)
    assert asked.outcomes == {"groups": "ok"}
    assert sorted(told(asked)) == [f"group-{n}-0" for n in range(5)]


def test_groups_that_could_not_be_described_are_there_and_counted(near: FarCluster) -> None:
    with both_of(near) as both:
        assert ask(both).outcomes == {"groups": "ok"}
        near.brokers[2].hangs_on = "DescribeGroupsRequest"
        asked = ask(both, seconds=1.0)
    late = f"broker {names(near, 2)}: no answer in time (1.0 s, see enrichTimeout)"
    assert asked.outcomes == {"groups": f"ok: 1 of 6 groups could not be described: {late}"}
    assert {name: group["error"] for name, group in told(asked).items() if "error" in group} == {
        "group-2-0": f"failed: {late}"
    }


def test_side_by_side_in_a_bounded_number_of_threads() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def call(item: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return -item

    assert side_by_side(range(200), call, "test") == [-n for n in range(200)]
    assert 1 < most <= 64
    assert side_by_side([], call, "test") == []
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        side_by_side([1, 0, 2], lambda n: 1 // n, "test")
    assert threading.active_count() == before
