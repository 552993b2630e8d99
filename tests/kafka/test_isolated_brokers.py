"""Brokers that are cut off from the controllers and answer on: nothing is missed, and nothing
believed of them.
"""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Self

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from local_cluster import LocalCluster
from metadata_source import witnesses as witnesses_module
from metadata_source.options import TopicFilter, parse
from metadata_source.poller import Poller
from metadata_source.protocol.metadata import ClusterMetadata
from metadata_source.records import BatchRecords, Planned
from tests.support.silver_rounds import PARTITIONS, STALE, Lake
from tests.support.waiting import eventually

EVERY_S = 0.5
LEADS_MUCH, LISTENS, FOLLOWS = 1, 2, 3
TOPIC, STREAM = "orders", "20261101T000000Z-00000000"
REPLICAS = [[1, 2, 3], [1, 2, 3], [2, 1, 3]]


@pytest.fixture(scope="module")
def isolatable() -> Iterator[LocalCluster]:
    """Brokers 1 to 3; broker 1 leads much, and broker 3 nothing."""
    times = {"broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
    with LocalCluster(3, controllers=1, isolatable=True, properties=times) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS)])[
            TOPIC
        ].result(30)
        yield cluster


class Recorded:
    """Polls of a cluster on a beat, and the history of them."""

    def __init__(self, servers: str) -> None:
        options = parse(
            {"kafka.bootstrap.servers": servers, "requestTimeout": "3s", "topicsPattern": TOPIC}
        )
        self._options = options
        self._ended = threading.Event()
        self._rows: list[dict[str, Any]] = []
        self._count = 0
        self._thread = threading.Thread(target=self._poll)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _poll(self) -> None:
        records = BatchRecords(TopicFilter())
        with Poller(
            self._options.clusters[0], self._options.topic_filter, self._options.request_timeout_ms
        ) as poller:
            while not self._ended.wait(EVERY_S):
                due = round(datetime.now(UTC).timestamp() * 1000)
                planned = Planned(STREAM, self._count, "c", date(2026, 11, 1), 500, due)
                self._rows += [
                    row
                    for batch in records.rows(planned, poller.poll())
                    for row in batch.to_pylist()
                ]
                records.kept()
                self._count += 1

    def await_polls(self, count: int) -> None:
        """Wait for so many more."""
        until = self._count + count
        eventually(lambda: self._count >= until, f"{count} polls")

    def history(self) -> Lake:
        """Silver of all polls, in rounds of three."""
        lake, rows = Lake("c"), self._rows
        headers = [row for row in rows if row["record"] == "poll"]
        assert {header["outcome"] for header in headers} == {"ok"}
        ids = sorted(header["poll_id"] for header in headers)
        for begin in range(0, len(ids), 3):
            lake.take(rows, ids[begin : begin + 3], headers[0]["cluster_id"])
        return lake


def polled(server: str) -> ClusterMetadata:
    """The answer of one broker."""
    options = parse({"kafka.bootstrap.servers": server, "topicsPattern": TOPIC})
    with Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller:
        metadata = poller.poll().metadata
    assert metadata is not None
    return metadata


def listed(server: str) -> set[int]:
    return set(polled(server).brokers["broker_id"].to_pylist())


def isrs(server: str) -> list[set[int]]:
    return [set(row["isr"]) for row in polled(server).partitions.to_pylist()]


def states(lake: Lake, partition: int) -> list[tuple[int, int, tuple[int, ...]]]:
    """Leader, leader epoch and ISR of a partition, one after the other."""
    rows = [row for row in lake.tables[PARTITIONS].values() if row["partition"] == partition]
    rows.sort(key=lambda row: row["first_poll"])
    return [
        state
        for state, _ in groupby(
            (row["leader"], row["leader_epoch"], tuple(row["isr"])) for row in rows
        )
    ]


@pytest.mark.parametrize("broker", [pytest.param(FOLLOWS, marks=pytest.mark.soak), LEADS_MUCH])
def test_an_isolated_broker_is_found_and_nothing_of_its_image_is_believed(
    isolatable: LocalCluster, broker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses_module, "BEHIND_S", 1.0)
    with Recorded(isolatable.bootstrap_servers) as recorded:
        recorded.await_polls(4)
        cut_at = datetime.now(UTC)
        isolatable.isolate(broker)
        well = isolatable.bootstrap_servers.split(",")[LISTENS - 1]
        others = {1, 2, 3} - {broker}
        eventually(lambda: listed(well) == others, "the broker to be fenced")
        # It is behind only if it has been for `BEHIND_S`.
        recorded.await_polls(6)
        # A process that knows nothing yet, and this broker alone by its address.
        server = isolatable.bootstrap_servers.split(",")[broker - 1]
        options = parse({"kafka.bootstrap.servers": server, "requestTimeout": "3s"})
        with Poller(
            options.clusters[0], options.topic_filter, options.request_timeout_ms
        ) as poller:
            first = poller.poll()
        mended_at = datetime.now(UTC)
        isolatable.rejoin(broker)
        eventually(lambda: isrs(well) == [{1, 2, 3}] * len(REPLICAS), "the broker to be in sync")
        recorded.await_polls(6)
    assert first.broker_id != broker
    assert first.metadata is not None
    assert broker not in first.metadata.brokers["broker_id"].to_pylist()
    assert [(told.broker_id, told.is_behind) for told in first.witnesses] == [(broker, True)]

    lake = recorded.history()
    for partition, replicas in enumerate(REPLICAS):
        (leader, epoch, isr), *later = states(lake, partition)
        assert isr == (1, 2, 3)
        assert [each[2] for each in later] == [tuple(sorted({1, 2, 3} - {broker})), isr], (
            "no ISR came back too early"
        )
        moved = (2, epoch + 1) if leader == broker else (leader, epoch)
        assert [each[:2] for each in later] == [moved, moved]
        assert leader in replicas
    # Several, where a slow machine let one of its answers come too late.
    first_row, *_, last_row = [*lake.tables[STALE].values()] * 2
    assert {row["broker_id"] for row in lake.tables[STALE].values()} == {broker}
    assert last_row["end_reason"] == "caught_up"
    assert first_row["began_after"] < first_row["began_before"]
    assert cut_at < first_row["began_before"] < mended_at < last_row["ended_before"]
    assert first_row["began_after"] < cut_at + timedelta(seconds=5), (
        "the controllers fence it after 4 s"
    )
    assert max(row["partitions_behind"] for row in lake.tables[STALE].values()) >= len(REPLICAS)
    assert max(row["epochs_behind"] for row in lake.tables[STALE].values()) >= (
        2 if broker == LEADS_MUCH else 0
    )
