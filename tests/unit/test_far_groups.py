"""Groups of clusters that are large and far away, over sockets: all within the budget, and what is missing is named."""

import threading
import time
from collections.abc import Iterator

import pytest

from benchmarks.far_cluster import HOST, FarCluster
from metadata_source import poller as poller_module
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.threads import side_by_side
from tests.support.beside import Beside, beside

FAR_S = 0.04


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poller_module, "_memories", {})


@pytest.fixture
def near() -> Iterator[FarCluster]:
    """Six brokers; broker n leads partitions n and n + 6."""
    with FarCluster(6, round_trip_s=0.002, partitions=12, groups=1) as cluster:
        yield cluster


def poller_of(cluster: FarCluster) -> Poller:
    """Groups have 10 s, which a busy machine keeps too."""
    options = parse(cluster.options | {"enrich": "groups", "enrichTimeout": "20s"})
    return Poller(
        options.clusters[0],
        options.topic_filter,
        options.request_timeout_ms,
        enrich_timeout_ms=options.polling["default"].enrich_timeout_ms,
    )


def ask(poller: Poller, seconds: float | None = None) -> Beside:
    """Poll, then ask for groups, in so many seconds."""
    poll = poller.poll()
    assert poll.metadata is not None, poll.error
    if seconds is not None:
        poller._enrich_timeout_s = 2 * seconds
    return beside(poller.ask_beside(subject(("groups",), poll.metadata), float("inf")))


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
    with FarCluster(50, round_trip_s=FAR_S, is_secured=is_secured) as cluster, poller_of(cluster) as poller:
        for _ in range(2):
            asked = ask(poller)
            assert asked.outcomes == {"groups": "ok"}
            assert len(told(asked)) == 200
            assert {group["state"] for group in told(asked).values()} == {"Empty"}
        assert {broker.connections for broker in cluster.brokers} == {1}


def test_connections_are_kept_between_polls_and_closed_at_the_end(near: FarCluster) -> None:
    with poller_of(near) as poller:
        for _ in range(3):
            assert ask(poller).outcomes == {"groups": "ok"}
        assert [broker.connections for broker in near.brokers] == [1] * 6
        near.hang_up(4)
        assert ask(poller).outcomes == {"groups": "ok"}, "a connection that was closed meanwhile is made again"
        assert [broker.connections for broker in near.brokers] == [1, 1, 1, 1, 2, 1]
        assert [near.connected(n) for n in range(6)] == [1] * 6
    settle(near, dict.fromkeys(range(6), 0))


def test_a_broker_that_moves_gets_another_connection(near: FarCluster) -> None:
    with poller_of(near) as poller:
        assert ask(poller).outcomes == {"groups": "ok"}
        before = near.brokers[5].port
        near.start(5)
        assert near.brokers[5].port != before
        assert ask(poller).outcomes == {"groups": "ok"}
        assert [broker.connections for broker in near.brokers] == [1, 1, 1, 1, 1, 2]
        assert len(told(ask(poller))) == 6
    settle(near, {5: 0})


def test_brokers_that_list_nothing_are_named_with_what_they_lead(near: FarCluster) -> None:
    with poller_of(near) as poller:
        assert ask(poller).outcomes == {"groups": "ok"}
        near.stop(3)
        near.brokers[4].hangs_on = "ListGroupsRequest"
        near.hang_up(5)
        near.brokers[5].says = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        asked = ask(poller, seconds=1.0)
    assert asked.rows == {}, "what is not whole is not kept: groups that it does not list have not ended"
    assert asked.outcomes["groups"].split("; ") == [
        f"failed: broker {names(near, 3)}: connection refused",
        f"broker {names(near, 4)}: no answer in time (1.0 s, see enrichTimeout)",
        f"broker {names(near, 5)}: not a Kafka broker: the answer begins with b'HTTP'",
        "no broker that answered leads __consumer_offsets partitions 3, 4, 5, 9, 10, 11",
    ]


def test_brokers_of_one_trouble_are_named_together(near: FarCluster) -> None:
    for each in (2, 3, 5):
        near.stop(each)
    with poller_of(near) as poller:
        said = ask(poller).outcomes["groups"]
    assert said.startswith(
        f"failed: brokers {names(near, 2, 3, 5)}: connection refused; no broker that answered leads "
    )


def test_a_broker_that_leads_none_of_the_log_is_not_missed(near: FarCluster) -> None:
    near.partitions = 5
    near.stop(5)
    with poller_of(near) as poller:
        asked = ask(poller)
    assert asked.outcomes == {"groups": "ok"}
    assert sorted(told(asked)) == [f"group-{n}-0" for n in range(5)]


def test_groups_that_could_not_be_described_are_there_and_counted(near: FarCluster) -> None:
    with poller_of(near) as poller:
        assert ask(poller).outcomes == {"groups": "ok"}
        near.brokers[2].hangs_on = "DescribeGroupsRequest"
        asked = ask(poller, seconds=1.0)
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
