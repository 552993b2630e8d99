"""Which controller is asked for the log, and what is said of those that do not answer."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from metadata_source.errors import ClusterLogError
from metadata_source.logs.cluster import controllers
from metadata_source.logs.cluster.positions import LogPosition
from metadata_source.logs.cluster.watcher import LogWatcher
from tests.support.controllers_log import Follow, batch_read, cluster_of, options_of, told
from tests.support.quorum import FETCH_KEY, QUORUM_KEY, Quorum, topic

DENIED, INVALID_REQUEST = 31, 42


@pytest.mark.parametrize("newest", [13, 17])
def test_the_active_controller_is_followed(quorum: Quorum, follow: Follow, newest: int) -> None:
    """Before Fetch v16 no answer says where the active one is."""
    quorum.newest = newest
    stream, dead = follow(), None
    stream.plan()
    stream.batch()
    for leader, dies in ((2, 1), (3, 2), (1, None)):
        if dead is not None:
            quorum.nodes.listen(dead)
        quorum.elect(leader, epochs=2)
        if dies is not None:
            quorum.nodes.kill(dies)
        dead = dies
        (change, span) = stream.batch()
        assert (change["leader_change"]["leader"], change["leader_epoch"]) == (leader, quorum.epoch)
        assert span["records"] == 1


def test_a_controller_that_leads_in_a_newer_epoch_is_asked_again_at_once(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "_PAUSE_S", 3_600)
    with closing(LogWatcher(cluster_of(quorum, 1), "earliest", 1_000)) as watcher:
        watcher.ask_extent(None)
        quorum.elect(1, epochs=2)
        quorum.asked.clear()
        watcher.ask_extent(None)
    assert [node for node, _, _ in quorum.asked][:2] == [1, 1]


def test_an_active_controller_that_is_not_given_is_found_by_what_others_say(quorum: Quorum) -> None:
    quorum.elect(3)
    assert told(batch_read(options_of(quorum, 1)))[-1] == ("read", 0, 2)
    quorum.newest = 13
    with pytest.raises(
        ClusterLogError,
        match=rf"no_leader: cluster default: {quorum.where(1)}: is not the active controller",
    ):
        batch_read(options_of(quorum, 1))


def test_a_controller_that_was_active_before_takes_nothing_back(
    quorum: Quorum, follow: Follow
) -> None:
    """It was held for a while, and has not heard yet of who came after it."""
    held, stream = Quorum(), follow()
    quorum.elect(2)
    quorum.write(topic("a"))
    stream.plan()
    assert told(stream.batch())[-1] == ("read", 0, 3)
    quorum.write(topic("b"))
    planned = stream.plan()
    quorum.cut_off = dict.fromkeys((1, 2, 3), held)
    with closing(LogWatcher(cluster_of(quorum), "earliest", 500)) as watcher:
        for again in (lambda: watcher.ask_extent(stream.position), lambda: stream.read(planned)):
            with pytest.raises(
                ClusterLogError,
                match=r"no_leader: .*:\d+: knows of leader epoch 1, and 2 has been seen",
            ):
                again()


@pytest.mark.parametrize(
    ("breaks", "said"),
    [
        pytest.param(
            lambda quorum: quorum.apis.update({1: (FETCH_KEY, QUORUM_KEY)}),
            (
                "not_controller: cluster default: NODE: is a broker's listener: give "
                "kafka.controller.bootstrap.servers"
            ),
            id="a broker",
        ),
        pytest.param(
            lambda quorum: quorum.apis.update({1: (FETCH_KEY,)}),
            "not_controller: cluster default: NODE: is a broker of a cluster with ZooKeeper",
            id="a broker of a cluster with ZooKeeper",
        ),
        pytest.param(
            lambda quorum: setattr(quorum, "error", DENIED),
            (
                "not_allowed: cluster default: NODE: CLUSTER_ACTION on the cluster is missing "
                "(kafka-acls"
            ),
            id="CLUSTER_AUTHORIZATION_FAILED",
        ),
        pytest.param(
            lambda quorum: setattr(quorum, "error", INVALID_REQUEST),
            "broker_error: cluster default: NODE: error 42 (InvalidRequestError)",
            id="INVALID_REQUEST",
        ),
        pytest.param(
            lambda quorum: quorum.nodes.kill(1),
            "unreachable: cluster default: NODE: connection refused",
            id="nobody listens",
        ),
        pytest.param(
            lambda quorum: setattr(quorum, "newest", 12),
            (
                "unsupported_version: cluster default: NODE: this broker's version has no "
                "FetchRequest"
            ),
            id="Fetch v12",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    quorum: Quorum, breaks: Callable[[Quorum], Any], said: str
) -> None:
    breaks(quorum)
    with pytest.raises(ClusterLogError) as raised:
        batch_read(options_of(quorum, 1))
    line = f"[KAFKA_METADATA_CLUSTER_LOG] {said}".replace("NODE", quorum.where(1))
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_the_same_problem_of_all_addresses_is_said_once(quorum: Quorum) -> None:
    quorum.apis = dict.fromkeys((1, 2), (FETCH_KEY, QUORUM_KEY))
    quorum.nodes.kill(3)
    with pytest.raises(ClusterLogError) as raised:
        batch_read(options_of(quorum))
    said = str(raised.value)
    assert said.startswith("[KAFKA_METADATA_CLUSTER_LOG] not_controller: cluster default: ")
    assert len(said) < 320
    assert said.count("broker's listener") == 1
    assert all(quorum.where(node) in said for node in (1, 2, 3))


def test_another_cluster_is_not_read(quorum: Quorum) -> None:
    with pytest.raises(
        ClusterLogError, match=r"wrong_cluster: .*:\d+: is not of cluster other, as clusterId says"
    ):
        batch_read(options_of(quorum) | {"clusterId": "other"})
    with (
        closing(LogWatcher(cluster_of(quorum), "earliest", 1_000)) as watcher,
        pytest.raises(
            ClusterLogError, match="wrong_cluster: its place is in the log of cluster other"
        ),
    ):
        watcher.ask_extent(LogPosition("other", 5))


def test_one_address_that_is_no_controller_s_does_no_harm(quorum: Quorum) -> None:
    quorum.apis = {1: (FETCH_KEY, QUORUM_KEY)}
    quorum.nodes.kill(3)
    quorum.elect(2)
    assert told(batch_read(options_of(quorum)))[-1] == ("read", 0, 2)


def test_a_final_problem_of_an_address_that_is_given_ends_the_asking(quorum: Quorum) -> None:
    """Of a controller that others name it does not: somebody else may know better."""
    quorum.error = DENIED
    with pytest.raises(ClusterLogError, match="not_allowed"):
        batch_read(options_of(quorum))
    assert len({node for node, _, _ in quorum.asked}) == 1


@pytest.mark.parametrize("listed", [(1, 2, 3), (2,)])
def test_after_a_doubt_another_address_is_asked_first(
    quorum: Quorum, listed: tuple[int, ...]
) -> None:
    with closing(LogWatcher(cluster_of(quorum, *listed), "earliest", 1_000)) as watcher:
        watcher.ask_extent(None)
        controllers = watcher._controllers
        quorum.asked.clear()
        controllers.doubt()
        quorum.asked.clear()
        watcher.ask_extent(LogPosition("id-of-the-cluster", 1))
    assert quorum.asked[0][0] == listed[1 % len(listed)]


def test_an_interrupted_watcher_asks_nobody_any_more(quorum: Quorum) -> None:
    with closing(LogWatcher(cluster_of(quorum), "earliest", 1_000)) as watcher:
        watcher.ask_extent(None)
        watcher.interrupt()
        quorum.asked.clear()
        with pytest.raises(ClusterLogError, match="nobody is asked any more"):
            watcher.ask_extent(None)
    assert quorum.asked == []
