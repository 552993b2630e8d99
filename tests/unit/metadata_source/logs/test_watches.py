"""Streams of both logs wait for a moved end: of brokers and controllers that speak bytes."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from metadata_source.logs import watches
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.group.datasource import KafkaGroupLogSource
from tests.support.listening import Listening
from tests.support.log_brokers import Brokers, commit_of, group_of
from tests.support.quorum import CLUSTER_ID, NO_OP, Quorum, topic

SERVERS = "kafka.controller.bootstrap.servers"


class GroupLogs:
    """The coordinators' log of clusters, of three partitions each."""

    source = KafkaGroupLogSource

    def __init__(self) -> None:
        self.made: list[Brokers] = []

    def add(self) -> tuple[Listening, Callable[[str], dict[str, str]]]:
        self.made.append(Brokers(cluster_id=f"id-{len(self.made)}"))
        return self.made[-1].listening(), lambda servers: {"kafka.bootstrap.servers": servers}

    def news(self, number: int = 0, partition: int = 1) -> None:
        self.made[number].append(partition, group_of("g"))

    def quiet(self, number: int = 0, partition: int = 2) -> None:
        self.made[number].append(partition, commit_of("g"), commit_of("h"))

    def is_at_end(self, number: int, place: dict[str, Any]) -> bool:
        return all(
            self.made[number].end(int(each)) == offset for each, offset in place["next"].items()
        )


class ClusterLogs:
    """The controllers' log of clusters."""

    source = KafkaClusterLogSource

    def __init__(self) -> None:
        self.made: list[Quorum] = []

    def add(self) -> tuple[Listening, Callable[[str], dict[str, str]]]:
        self.made.append(Quorum(holds=True))
        return self.made[-1].listening(), lambda servers: {
            SERVERS: servers,
            "clusterId": CLUSTER_ID,
        }

    def news(self, number: int = 0, _: int = 0) -> None:
        self.made[number].write(topic("a"))

    def quiet(self, number: int = 0, _: int = 0) -> None:
        self.made[number].write(NO_OP, NO_OP)

    def is_at_end(self, number: int, place: dict[str, Any]) -> bool:
        return bool(place["next"] == len(self.made[number].log))


class Stream:
    """A stream of some clusters, `c0`, `c1` ..., as Spark asks its reader. `at`: where it is."""

    def __init__(self, logs: Any, clusters: dict[str, Any], options: dict[str, str]) -> None:
        source = logs.source({"clusters": json.dumps(clusters), "requestTimeout": "2s", **options})
        self.reader, self.logs = source.streamReader(source.schema()), logs
        self.at: dict[str, Any] = self.reader.initialOffset()

    def batch(self) -> None:
        """Plan a batch, or find that there is none."""
        self.before = self.at
        self.at = json.loads(json.dumps(self.reader.latestOffset(self.at, None)))

    def settle(self) -> None:
        """Follow up to where the logs end now."""
        deadline = time.monotonic() + 300
        aliases = [f"c{number}" for number in range(len(self.logs.made))]
        while not all(
            alias in self.at and self.logs.is_at_end(number, self.at[alias])
            for number, alias in enumerate(aliases)
        ):
            assert time.monotonic() < deadline
            self.batch()

    def moved(self) -> set[str]:
        """The clusters of the last batch."""
        return {alias for alias, place in self.at.items() if place != self.before.get(alias)}

    def rows(self) -> list[dict[str, Any]]:
        """Those of the last batch."""
        tasks = self.reader.partitions(self.before, self.at)
        return [
            row for task in tasks for batch in self.reader.read(task) for row in batch.to_pylist()
        ]


@contextmanager
def streaming(
    logs: Any, clusters: int = 1, **options: str
) -> Iterator[tuple[Stream, list[Listening]]]:
    with ExitStack() as stack:
        given, listening = {}, []
        for number in range(clusters):
            server, options_of = logs.add()
            listening.append(stack.enter_context(server))
            given[f"c{number}"] = options_of(server.servers)
        stream = Stream(
            logs, given, {"minCommitInterval": "100ms", "commitInterval": "1s", **options}
        )
        stack.callback(stream.reader.stop)
        yield stream, listening


both = pytest.mark.parametrize("logs", [GroupLogs, ClusterLogs])


@both
def test_a_record_is_in_a_batch_at_once(logs: Any) -> None:
    logs = logs()
    with streaming(logs, 2, commitInterval="1h") as (stream, _):
        stream.settle()
        for number in (1, 0, 1):
            threading.Timer(0.4, logs.news, [number]).start()
            stream.batch()
            assert stream.moved() == {f"c{number}"}
            assert {row["cluster"] for row in stream.rows()} == {f"c{number}"}
            assert any(row["record"] == "record" for row in stream.rows())
            assert logs.is_at_end(number, stream.at[f"c{number}"])


@both
def test_what_is_no_news_is_noted_once_in_a_while_of_all_clusters_together(
    logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = logs()
    monkeypatch.setattr(watches, "PATIENCE_S", 10.0)  # All of them answer.
    with streaming(logs, 2) as (stream, _):
        stream.settle()
        stream.batch()  # to the end of an interval
        for _ in range(2):
            logs.quiet(0)
            logs.quiet(1)
            stream.batch()
            assert stream.moved() == {"c0", "c1"}
            assert not [row for row in stream.rows() if row["record"] == "record"]
        stream.batch()
        assert stream.moved() == set(), "if nothing came at all, there is nothing to note"


@both
def test_what_is_no_news_goes_with_the_news_of_its_cluster(logs: Any) -> None:
    logs = logs()
    with streaming(logs, 2, commitInterval="1h") as (stream, _):
        stream.settle()
        logs.quiet(0)
        logs.quiet(1)
        threading.Timer(1.5, logs.news, [0]).start()
        stream.batch()
        assert stream.moved() == {"c0"}
        assert logs.is_at_end(0, stream.at["c0"])


@both
def test_batches_begin_no_more_often_than_they_may(logs: Any) -> None:
    logs = logs()
    with streaming(logs, commitInterval="1h", minCommitInterval="1500ms") as (stream, _):
        stream.settle()
        logs.news()
        stream.batch()
        began = time.monotonic()
        logs.news()
        stream.batch()
        assert stream.moved()
        assert time.monotonic() - began > 1


@both
def test_a_quiet_stream_asks_little(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at each cluster once in `commitInterval`, and a long fetch of each leader between."""
    logs = logs()
    monkeypatch.setattr(watches, "WAIT_S", 1.5)
    with streaming(logs, commitInterval="1h") as (stream, (listening,)):
        stream.settle()
        since = time.monotonic()
        threading.Timer(2.0, logs.news).start()
        stream.batch()
        asked = listening.keys(since)
    # Two leaders, or a controller and, since nothing came, another one.
    assert 2 <= len(asked) <= 6, asked
    assert set(asked) == {1}


@both
def test_a_cluster_that_is_slow_or_down_holds_nobody_up(logs: Any) -> None:
    logs = logs()
    with socket.create_server(("127.0.0.1", 0)) as silent, streaming(logs, 1) as (_, (listening,)):
        servers = {"slow": f"127.0.0.1:{silent.getsockname()[1]}", "down": "127.0.0.1:1"}
        key = "kafka.bootstrap.servers" if isinstance(logs, GroupLogs) else SERVERS
        clusters = {alias: {key: each, "clusterId": "x"} for alias, each in servers.items()}
        clusters["c0"] = {
            key: listening.servers,
            "clusterId": "id-0" if isinstance(logs, GroupLogs) else CLUSTER_ID,
        }
        patient = {"requestTimeout": "10m"}  # Whoever waits for one of them waits for ever.
        stream = Stream(
            logs, clusters, {"commitInterval": "1h", "minCommitInterval": "100ms", **patient}
        )
        stream.settle()
        threading.Timer(0.4, logs.news).start()
        stream.batch()
        assert stream.moved() == {"c0"}
        stream.reader.stop()


@both
def test_stop_ends_what_waits(logs: Any) -> None:
    logs = logs()
    before = set(threading.enumerate())
    with streaming(logs, 2, commitInterval="1h") as (stream, _):
        stream.settle()
        threading.Timer(0.3, logs.news).start()
        stream.batch()
        time.sleep(0.2)
        waits = [
            each
            for each in threading.enumerate()
            if each not in before and "kafka_metadata" in each.name
        ]
        assert waits, "the other cluster is waited for"
        stream.reader.stop()
        for each in waits:
            each.join(60)
        assert not [each for each in waits if each.is_alive()]


@both
def test_a_process_whose_driver_was_killed_ends(logs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = logs()
    with streaming(logs, commitInterval="1h") as (stream, _):
        stream.settle()
        threading.Timer(0.5, monkeypatch.setattr, [os, "getppid", lambda: 1]).start()
        with pytest.raises(RuntimeError, match="the Spark driver is gone"):
            stream.batch()
    assert all(
        each.daemon
        for each in threading.enumerate()
        if each.name == "kafka_metadata_history.group_log"
    )


@both
def test_a_log_is_followed_to_whoever_leads_it_now(logs: Any) -> None:
    logs = logs()
    with streaming(logs, commitInterval="1h") as (stream, _):
        stream.settle()
        for leader in (0, 1):
            if isinstance(logs, GroupLogs):
                threading.Timer(0.3, logs.made[0].lead, [1, leader]).start()
                threading.Timer(0.6, logs.news).start()
            else:
                threading.Timer(0.3, logs.made[0].elect, [2 + leader]).start()
            stream.batch()
            assert stream.moved() == {"c0"}
            assert any(row["record"] == "record" for row in stream.rows())
            assert not [row for row in stream.rows() if row["record"] in {"lost", "truncated"}]
            epochs = stream.at["c0"]["epochs"]
            newest = logs.made[0].epoch_of(1) if isinstance(logs, GroupLogs) else logs.made[0].epoch
            assert (epochs["1"] if isinstance(logs, GroupLogs) else epochs)[-1][0] == newest


def test_a_partition_that_has_no_leader_for_a_while_is_read_once_it_has_one() -> None:
    logs = GroupLogs()
    with streaming(logs, commitInterval="1h") as (stream, _):
        stream.settle()
        (brokers,) = logs.made
        threading.Timer(0.2, brokers.lead, [1, -1]).start()
        threading.Timer(1.0, logs.news, [0, 0]).start()
        stream.batch()
        assert stream.at["c0"]["next"]["0"] == brokers.end(0)
        threading.Timer(0.3, brokers.lead, [1, 0]).start()
        threading.Timer(0.4, logs.news, [0, 1]).start()
        stream.batch()
        assert logs.is_at_end(0, stream.at["c0"])


@both
def test_much_that_is_no_news_is_not_asked_for_without_a_pause(logs: Any) -> None:
    logs = logs()
    with streaming(logs, commitInterval="1h") as (stream, (listening,)):
        stream.settle()
        if isinstance(logs, ClusterLogs):
            logs.made[0].a_time = 1_000
        since = time.monotonic()
        for after in range(40):
            threading.Timer(after / 20, logs.quiet).start()
        threading.Timer(2.2, logs.news).start()
        stream.batch()
        assert len(listening.keys(since)) < 12


def test_what_is_more_than_a_batch_may_have_follows_at_once() -> None:
    logs = GroupLogs()
    with streaming(logs, commitInterval="1h", maxRecordsPerBatch="10") as (stream, (listening,)):
        stream.batch()
        count = len(listening.keys())
        for _ in range(5):
            stream.batch()
            assert stream.moved() == {"c0"}
        assert len(listening.keys()) == count, "what is known is not asked for again"


def test_news_after_more_than_an_answer_is_found_at_once() -> None:
    logs = ClusterLogs()
    with streaming(logs, commitInterval="1h") as (stream, _):
        stream.settle()
        logs.made[0].write(*[NO_OP] * 30, topic("a"))
        stream.batch()
        assert "record" in {row["record"] for row in stream.rows()}


def test_a_record_that_is_not_committed_yet_is_waited_for() -> None:
    logs = ClusterLogs()
    with streaming(logs, commitInterval="1h") as (stream, _):
        stream.settle()
        (quorum,) = logs.made
        logs.quiet()
        quorum.committed = len(quorum.log)
        threading.Timer(1.2, logs.news).start()
        threading.Timer(1.5, setattr, [quorum, "committed", None]).start()
        stream.batch()
        assert [row["record"] for row in stream.rows()] == ["record", "span"]


def test_a_controller_that_throttles_is_left_alone_for_as_long() -> None:
    logs = ClusterLogs()
    with streaming(logs, commitInterval="1h") as (stream, (listening,)):
        stream.settle()
        (quorum,) = logs.made
        quorum.throttle_ms = 1_500
        logs.quiet()
        threading.Timer(0.6, setattr, [quorum, "throttle_ms", 0]).start()
        threading.Timer(0.7, logs.news).start()
        since = time.monotonic()
        stream.batch()
        times = [at for at, _, _ in listening.asked if at > since]
        assert stream.moved() == {"c0"}
        assert times[1] - times[0] > 1.4
