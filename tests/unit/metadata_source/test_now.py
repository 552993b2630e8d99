"""The state of a cluster now, asked of brokers that speak bytes."""

import math

import pytest

from metadata_source.errors import PollError
from metadata_source.now import ASKED, CaughtUp, ask_now
from metadata_source.options import Cluster, parse
from tests.support.byte_cluster import ByteCluster


def of(cluster: ByteCluster) -> Cluster:
    (found,) = parse({"kafka.bootstrap.servers": cluster.servers()}).clusters
    return found


def test_two_brokers_are_asked_and_all_questions() -> None:
    with ByteCluster(orders=[(5, (0, 1))]) as cluster:
        for each in cluster.brokers:
            each.voters = {2: 0, 0: 700, 1: 1_700_000_000_001}
        now = ask_now(of(cluster), 5_000)
        assert len({broker for broker, _ in cluster.polled}) == 2
    assert sorted(now.answers) == sorted(ASKED)
    assert now.metadata.partitions["isr"].to_pylist() == [[0, 1]]
    # The time of voter 1 is -1: the controller does not know it.
    assert now.quorum == CaughtUp(2, frozenset({0, 1, 2}), {2: 0, 0: 700, 1: math.inf})


def test_a_version_without_times() -> None:
    with ByteCluster(orders=[(5, (0, 1))]) as cluster:
        for each in cluster.brokers:
            each.voters = dict.fromkeys((0, 1, 2), 1_700_000_000_001)
        now = ask_now(of(cluster), 5_000)
    assert now.quorum == CaughtUp(0, frozenset({0, 1, 2}), None)


def test_a_quorum_that_is_refused_has_an_outcome() -> None:
    with ByteCluster(orders=[(5, (0, 1))]) as cluster:
        for each in cluster.brokers:
            each.voters, each.error_code = {0: 0}, 31
        now = ask_now(of(cluster), 5_000)
    assert (now.quorum, now.outcome) == (None, "not_allowed")


def test_nobody_answers() -> None:
    with ByteCluster() as cluster:
        servers = of(cluster)
    with pytest.raises(PollError):
        ask_now(servers, 300)
