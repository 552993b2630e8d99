"""Which groups there are: of coordinators in memory, and of clusters that are large and far away,
over sockets. All within the budget, and what is missing is named.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import pytest

from benchmarks.far_cluster import HOST, FarCluster
from metadata_source import coordinators
from metadata_source.addresses import Address
from metadata_source.asking import Asking
from metadata_source.enrichment import Subject, subject
from metadata_source.errors import PollError
from metadata_source.many_brokers import Broker
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.transport import Connection
from tests.support.beside import Beside, answered, beside
from tests.support.coordinators import Cluster, Node, listed
from tests.support.group_answers import asked, entry, groups
from tests.support.waiting import eventually

COORDINATOR_LOAD_IN_PROGRESS = 14
NOT_COORDINATOR = 16
UNLED = "no broker that answered leads __consumer_offsets partitions 1"
UNREACHABLE = Node(error=PollError("unreachable", "host:1: connection refused"))
FAR_S = 0.1


@pytest.mark.parametrize("turned", [False, True])
def test_a_group_that_moves_is_told_by_whoever_describes_it(turned: bool):
    has_it = Node({0: 1}, [listed("a")], {"a": entry("a", "Empty")})
    had_it = Node({1: 1}, [listed("a")], {"a": entry("a", "", NOT_COORDINATOR)})
    described = groups(Cluster(*((has_it, had_it) if turned else (had_it, has_it))))
    assert (described["a"]["state"], "error" in described["a"]) == ("Empty", False)


def test_a_coordinator_that_is_new_has_time_to_begin_loading(monkeypatch: pytest.MonkeyPatch):
    """It lists nothing until it does, and then says that it loads."""
    monkeypatch.setattr(coordinators, "_LOADING_BEGINS_S", 0.01)
    node = Node({0: 2, 1: 1}, [], {"a": entry("a", "Empty")})
    cluster = Cluster(node)

    def loaded() -> None:
        node.lists = [listed("a")]

    def loads() -> None:
        node.list_error = COORDINATOR_LOAD_IN_PROGRESS

    cluster.when_led_anew = loaded
    assert groups(cluster)["a"]["state"] == "Empty"
    cluster.when_led_anew = loads
    assert asked(cluster)[0].startswith("failed: ")


def test_groups_are_all_there_if_those_who_lead_all_partitions_were_listed():
    cluster = Cluster(
        Node({0: 5}, [listed("a")], {"a": entry("a", "Empty")}),
        UNREACHABLE,
        Node({1: 7}, [listed("b", "consumer")], {"b": entry("b", "Empty")}),
    )
    assert {name: group["state"] for name, group in groups(cluster).items()} == {
        "a": "Empty",
        "b": "Empty",
    }
    assert {(broker, name) for broker, name, _ in cluster.asked if "Describe" in name} == {
        (0, "DescribeGroupsRequest"),
        (2, "ConsumerGroupDescribeRequest"),
    }


@pytest.mark.parametrize(
    ("cluster", "outcome"),
    [
        (
            Cluster(Node({0: 1}), UNREACHABLE),
            f"failed: broker 1 (host:1): connection refused; {UNLED}",
        ),
        (
            Cluster(Node({0: 1}), Node({1: 1}, list_error=14)),
            f"failed: broker 1 (host:1): error 14 (CoordinatorLoadInProgressError); {UNLED}",
        ),
        (
            Cluster(Node(), Node()),
            "failed: no broker that answered leads __consumer_offsets partitions 0, 1",
        ),
        (Cluster(Node({0: 1, 1: 1}, [listed("a")], moves=True), Node({})), f"failed: {UNLED}"),
        (
            Cluster(Node(), UNREACHABLE, partitions=0),
            "failed: broker 1 (host:1): connection refused",
        ),
        (Cluster(Node({0: 1, 1: 1}, list_error=31)), "not_allowed"),
        (Cluster(Node({0: 1, 1: 1}), UNREACHABLE, Node(list_error=31)), "not_allowed"),
        (Cluster(Node(error=PollError("unsupported_version", "host:0: none"))), "not_supported"),
    ],
)
def test_groups_that_may_be_missing_are_not_told(cluster: Cluster, outcome: str) -> None:
    assert asked(cluster) == (outcome, None)


def test_without_the_offsets_topic_every_broker_must_have_been_listed():
    assert asked(Cluster(Node(), Node(), partitions=0)) == ("ok", [])


def test_brokers_at_one_address_are_asked_one_after_the_other():
    """They share a connection."""
    cluster = Cluster(Node({0: 1, 1: 1}))
    ask, asking = cluster.ask, threading.Lock()

    def alone(*args):
        assert asking.acquire(blocking=False)
        time.sleep(0.001)
        asking.release()
        return ask(*args)

    cluster.ask = alone
    brokers = tuple(Broker(number, ("host", 0)) for number in range(3))
    assert answered("groups", Subject(("groups",), [], [], brokers), cluster)[0] == "ok"


def test_many_groups_are_described_in_parts_and_stand_in_rows_of_a_hundred():
    names = [f"g{n:04d}" for n in range(450)]
    cluster = Cluster(
        Node(
            {0: 1, 1: 1},
            [listed(name) for name in names],
            {name: entry(name, "Empty") for name in names},
        )
    )
    outcome, rows = asked(cluster)
    assert (outcome, [len(row) for row in rows]) == ("ok", [100, 100, 100, 100, 50])
    assert [group["group_id"] for row in rows for group in row] == names
    assert sorted(
        len(request["groups"]) for _, name, request in cluster.asked if "Describe" in name
    ) == [50, 200, 200]


def test_what_time_does_not_reach_could_not_be_told():
    late = "(0.0 s, see enrichTimeout)"
    outcome = f"failed: brokers 0 (host:0), 1 (host:1): not asked, no time was left {late}"
    assert asked(Cluster(Node(), Node(), seconds=0.0)) == (outcome, None)

    cluster = Cluster(Node({0: 1, 1: 1}, [listed("a")]), Node(), seconds=1.0)
    ask = cluster.ask

    def asking(address, question, deadline):
        if question.name == "ListGroupsRequest" and address[1] == 0:
            time.sleep(1.0)
        return ask(address, question, deadline)

    cluster.ask = asking
    late = "broker 0 (host:0): no time was left to describe it (1.0 s, see enrichTimeout)"
    described = groups(cluster, f": 1 of 1 groups could not be described: {late}")
    assert (described["a"]["error"], described["a"]["state"]) == (f"failed: {late}", "Stable")


def test_groups_have_all_of_their_time():
    cluster = Cluster(Node({0: 1, 1: 1}, [listed("a")], {"a": entry("a", "Empty")}), seconds=8.0)
    deadlines = []
    ask = cluster.ask
    cluster.ask = lambda address, question, deadline: (
        deadlines.append(deadline) or ask(address, question, deadline)
    )
    begin = time.monotonic()
    assert groups(cluster)["a"]["state"] == "Empty"
    assert [round(deadline - begin) for deadline in deadlines] == [8, 8, 8, 8]


# --- over sockets ---


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
    """Groups have 25 s, which a busy machine keeps too."""
    options = parse(cluster.options)
    with (
        Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller,
        closing(poller.asking(25_000)) as asking,
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
    eventually(lambda: {n: cluster.connected(n) for n in counts} == counts, str(counts))


@pytest.mark.parametrize("is_secured", [False, True])
def test_fifty_far_brokers_are_asked_in_time(is_secured: bool) -> None:
    """One after the other they take 35 s, and 72 s with TLS and SCRAM."""
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
        asked = ask(both, seconds=3.0)
    assert asked.rows == {}, (
        "what is not whole is not kept: groups that it does not list have not ended"
    )
    assert asked.outcomes["groups"].split("; ") == [
        f"failed: broker {names(near, 3)}: connection refused",
        f"broker {names(near, 4)}: no answer in time (3.0 s, see enrichTimeout)",
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
        asked = ask(both, seconds=3.0)
    late = f"broker {names(near, 2)}: no answer in time (3.0 s, see enrichTimeout)"
    assert asked.outcomes == {"groups": f"ok: 1 of 6 groups could not be described: {late}"}
    assert {name: group["error"] for name, group in told(asked).items() if "error" in group} == {
        "group-2-0": f"failed: {late}"
    }
