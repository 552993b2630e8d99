"""Clusters that are made up, and the rows of bronze that a recorder would make of them, by its own
code, from arrays.

A topic's partitions have three replicas each on brokers that follow one another, so that each
broker has the same share. Time is made up too: polls are on their beat and answered at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from metadata_source.columns.polls import POLLS
from metadata_source.images import Image
from metadata_source.options import TopicFilter
from metadata_source.poll import Poll
from metadata_source.protocol.metadata import BROKERS, PARTITIONS, TOPICS, ClusterMetadata
from metadata_source.recorder.beat import KeyFrame, is_key_due
from metadata_source.records import BatchRecords, Planned
from metadata_source.schedule import day_of, mint_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPLICAS: Final = 3
API_VERSION: Final = 13
METADATA_VERSION_LEVEL: Final = 27
TOOK: Final = timedelta(milliseconds=20)
BEGAN_AGO: Final = timedelta(hours=6)


class MadeUpCluster:
    """A cluster of `topics` x `partitions`, all led by their preferred replicas and whole."""

    def __init__(self, alias: str, topics: int, partitions: int, brokers: int) -> None:
        count = topics * partitions
        number = np.arange(count)
        self.alias = alias
        self.topics, self.partitions, self.brokers = topics, partitions, brokers
        self.replicas = ((number[:, None] + np.arange(REPLICAS)) % brokers).astype(np.int32)
        self.in_sync = np.ones((count, REPLICAS), np.bool_)
        self.leads = np.zeros(count, np.int64)
        """Which of its replicas leads each partition."""
        self.leader_epoch = np.zeros(count, np.int32)
        self.is_listed = np.ones(brokers, np.bool_)
        self.is_there = np.ones(topics, np.bool_)
        self.lives = np.zeros(topics, np.int64)
        """How often each topic was made again."""

    def stop(self, broker: int) -> None:
        """Take a broker out of every ISR; the next replica leads where it led."""
        gone = self.replicas == broker
        self.is_listed[broker] = False
        self.in_sync &= ~gone
        self._lead(np.argmax(self.in_sync, axis=1))

    def start(self, broker: int) -> None:
        """Bring it back, and leadership to the preferred replicas."""
        self.is_listed[broker] = True
        self.in_sync |= self.replicas == broker
        self._lead(np.argmax(self.in_sync, axis=1))

    def change(self, count: int) -> None:
        """Change so many partitions: the first half of them get another leader, of the others a
        replica leaves the ISR; or back again.
        """
        chosen = np.linspace(0, len(self.leads) - 1, count).astype(np.int64)
        led, shrunk = chosen[: count // 2], chosen[count // 2 :]
        leads = self.leads.copy()
        leads[led] = 1 - leads[led]
        self._lead(leads)
        self.in_sync[shrunk, REPLICAS - 1] ^= True

    def delete(self, topic: int) -> None:
        """Delete a topic."""
        self.is_there[topic] = False

    def make_again(self, topic: int) -> None:
        """Make a topic again under its name: its epochs begin again, and brokers that are out are
        in no ISR.
        """
        self.is_there[topic] = True
        self.lives[topic] += 1
        of_topic = slice(topic * self.partitions, (topic + 1) * self.partitions)
        self.in_sync[of_topic] = self.is_listed[self.replicas[of_topic]]
        self.leads[of_topic] = np.argmax(self.in_sync[of_topic], axis=1)
        self.leader_epoch[of_topic] = 0

    def metadata(self) -> ClusterMetadata:
        """Return the answer of a broker."""
        there = np.flatnonzero(self.is_there)
        of = np.flatnonzero(np.repeat(self.is_there, self.partitions))
        count, replicas = len(of), self.replicas[of]
        of_topic = pa.array(np.repeat(np.arange(len(there), dtype=np.int32), self.partitions))
        names = pa.array([f"topic-{number:05d}" for number in there])
        ids = pa.array([f"{self.lives[number]:07d}{number:015d}" for number in there])
        columns = {
            "topic": pa.DictionaryArray.from_arrays(of_topic, names),
            "topic_id": pa.DictionaryArray.from_arrays(of_topic, ids),
            "partition": np.tile(np.arange(self.partitions, dtype=np.int32), len(there)),
            "error_code": np.zeros(count, np.int16),
            "leader": replicas[np.arange(count), self.leads[of]],
            "leader_epoch": self.leader_epoch[of],
            "replicas": _lists(replicas, np.ones_like(self.in_sync[of])),
            "isr": _lists(replicas, self.in_sync[of]),
            "offline_replicas": _lists(replicas, ~self.is_listed[replicas]),
        }
        topics = {
            "topic": names,
            "topic_id": ids,
            "error_code": np.zeros(len(there), np.int16),
            "is_internal": np.zeros(len(there), np.bool_),
            "partition_count": np.full(len(there), self.partitions, np.int32),
        }
        listed = [int(broker) for broker in np.flatnonzero(self.is_listed)]
        brokers = {
            "broker_id": listed,
            "host": [f"broker-{broker}.kafka.internal" for broker in listed],
            "port": [9092] * len(listed),
            "rack": [f"zone-{broker % REPLICAS}" for broker in listed],
        }
        return ClusterMetadata(
            cluster_id=f"id-{self.alias}",
            controller_id=0,
            throttle_time_ms=0,
            error_code=0,
            cluster_authorized_operations=None,
            brokers=_table(brokers, BROKERS),
            topics=_table(topics, TOPICS),
            partitions=_table(columns, PARTITIONS),
        )

    def _lead(self, leads: np.ndarray) -> None:
        self.leader_epoch += (leads != self.leads).astype(np.int32)
        self.leads = leads


@dataclass
class MadeUpPoller:
    """A recorder of clusters on one beat, in one stream that began some hours ago."""

    clusters: Sequence[MadeUpCluster]
    interval: timedelta
    polls: int
    """In a batch."""
    n: int = 0
    began_at: datetime = field(
        default_factory=lambda: datetime.now(UTC).replace(microsecond=0) - BEGAN_AGO
    )

    def __post_init__(self) -> None:
        self.stream = mint_stream(self.began_at)
        self._records = [BatchRecords(TopicFilter()) for _ in self.clusters]
        self._key: KeyFrame | None = None

    def batch(self, change: Callable[[MadeUpCluster, int], object] | None = None) -> pa.Table:
        """Return the bronze rows of the next batch; `change` is done to each cluster before each
        poll, whose place in the batch it gets.
        """
        rows = []
        for place in range(self.polls):
            due = self.began_at + self.n * self.interval
            due_ms = round(due.timestamp() * 1000)
            is_key = is_key_due(self._key, due_ms / 1000, due_ms)
            if is_key:
                self._key = KeyFrame(day_of(due_ms), due_ms / 1000)
            for cluster, records in zip(self.clusters, self._records, strict=True):
                if change is not None:
                    change(cluster, place)
                interval_ms = self.interval // timedelta(milliseconds=1)
                planned = Planned(
                    self.stream, self.n, cluster.alias, day_of(due_ms), interval_ms, due_ms
                )
                rows += records.rows(planned, _answered(cluster, due), is_key_frame=is_key)
                records.kept()
            self.n += 1
        return pa.Table.from_batches(rows, POLLS)


def _answered(cluster: MadeUpCluster, due: datetime) -> Poll:
    metadata = cluster.metadata()
    return Poll(
        attempts=1,
        sent_at=due,
        received_at=due + TOOK,
        latency_ms=TOOK / timedelta(milliseconds=1),
        broker_id=int(np.argmax(cluster.is_listed)),
        broker="broker:9092",
        api_version=API_VERSION,
        response_bytes=43 * cluster.partitions * int(cluster.is_there.sum()),
        throttle_time_ms=0,
        metadata_version_level=METADATA_VERSION_LEVEL,
        elr_version_level=0,
        cluster_id=f"id-{cluster.alias}",
        metadata=metadata,
        image=Image.of(metadata),
    )


def _lists(values: np.ndarray, is_in: np.ndarray) -> pa.ListArray:
    """Return of each row of `values` those that are in, as a list."""
    ends = np.concatenate([[0], np.cumsum(is_in.sum(axis=1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(values[is_in], pa.int32()))


def _table(columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    """Return the columns in a decoder's schema, those that are missing null."""
    count = len(next(iter(columns.values())))
    return pa.table(
        [_column(columns.get(name), schema.field(name).type, count) for name in schema.names],
        schema=schema,
    )


def _column(values: object, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, pa.ListArray):
        return pa.ListArray.from_arrays(values.offsets, values.values, type=kind)
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)
