"""The history of a controllers' log is what Kafka's own classes make of it: `MetadataDelta` and
`MetadataImage`, and `KRaftMetadataCache`, which answers clients.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from jobs.rules.log.image import Image
from jobs.rules.log.silver import METADATA_VERSION, image_of
from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import RECORD_TYPES
from tests.support import cluster_records
from tests.support.cluster_logs import (
    ABORT,
    BEGIN,
    START,
    Entry,
    RandomLog,
    rows_of,
    rows_of_snapshot,
)
from tests.support.examples import examples
from tests.support.kafka_classes import METADATA, java_message, named, serialized
from tests.support.log_rounds import LogLake

LISTENER = "PLAINTEXT"


class Replay:
    """Kafka's image of a log as far as it was replayed."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._image = self._inside = named(jvm, "org.apache.kafka.image.MetadataImage").EMPTY
        self._is_inside = False

    def take(self, entries: Sequence[Entry]) -> None:
        """Replay some records. Nothing of a transaction is seen before its end
        (``MetadataBatchLoader``).

        Each is a delta of its own, as a controller replays them: where a topic is made and removed
        in one delta, that leaves its configurations.
        """
        for entry in (entry for entry in entries if not entry.is_control):
            if entry.transaction is None:
                self._inside = self._applied(entry)
            elif entry.transaction == ABORT:
                self._inside = self._image
            self._is_inside = entry.transaction == BEGIN or (
                self._is_inside and entry.transaction is None
            )
            if not self._is_inside:
                self._image = self._inside

    def _applied(self, entry: Entry) -> Any:
        delta = (
            named(self._jvm, "org.apache.kafka.image.MetadataDelta$Builder")()
            .setImage(self._inside)
            .build()
        )
        message = RECORD_TYPES[entry.number]
        delta.replay(java_message(self._jvm, METADATA, message, entry.version, entry.values))
        return delta.apply(
            named(self._jvm, "org.apache.kafka.image.MetadataProvenance")(entry.offset, 1, 1, True)
        )

    def snapshot(self) -> list[dict[str, Any]]:
        """The rows of Kafka's image, as it writes it into a snapshot, without header and footer."""
        writer = named(self._jvm, "org.apache.kafka.image.writer.RecordListWriter")()
        options = named(self._jvm, "org.apache.kafka.image.writer.ImageWriterOptions$Builder")(
            self._image
        )
        newest = named(self._jvm, "org.apache.kafka.server.common.MetadataVersion").latestTesting()
        self._image.write(
            writer,
            options.setMetadataVersion(newest).setEligibleLeaderReplicasEnabled(True).build(),
        )
        written = [
            serialized(self._jvm, each.message(), each.version()) for each in writer.records()
        ]
        rows = decode_records(cluster_records.log(written)).to_pylist()
        for row in (row for row in rows if (row["feature"] or {}).get("name") == METADATA_VERSION):
            # It was written as of the newest version, which has place for all there is.
            row["feature"]["level"] = self._image.features().metadataVersionOrThrow().featureLevel()
        return rows

    def image(self) -> Image:
        image = Image()
        for row in self.snapshot():
            image.replay(row)
        return image

    def answers(self) -> Iterator[tuple[Any, ...]]:
        """Of each partition, in order, what a broker with this image tells clients."""
        cache = named(self._jvm, "org.apache.kafka.metadata.KRaftMetadataCache")(1, None)
        cache.setImage(self._image)
        topics = cache.getTopicMetadata(
            cache.getAllTopics(),
            self._jvm.org.apache.kafka.common.network.ListenerName(LISTENER),
            False,
            False,
        )
        for topic in topics:
            for of in topic.partitions():
                yield (
                    topic.name(),
                    topic.topicId().toString(),
                    topic.isInternal(),
                    of.partitionIndex(),
                    *(of.errorCode(), of.leaderId(), of.leaderEpoch(), list(of.replicaNodes())),
                    *(sorted(of.isrNodes()), sorted(of.offlineReplicas())),
                )


def told(lake: LogLake) -> Iterator[tuple[Any, ...]]:
    """The answer to clients about each partition, as silver has it."""
    topics = {row["topic"]: row for row in lake.live["silver.topic_snapshots"]}
    for row in lake.live["silver.partition_snapshots"]:
        names = (
            "partition",
            "error_code",
            "leader",
            "leader_epoch",
            "replicas",
            "isr",
            "offline_replicas",
        )
        assert topics[row["topic"]]["topic_id"] == row["topic_id"]
        yield (
            row["topic"],
            row["topic_id"],
            topics[row["topic"]]["is_internal"],
            *(row[name] for name in names),
        )


_PARTITION = (
    "topic_id",
    "replicas",
    "leader",
    "leader_epoch",
    "partition_epoch",
    "leader_recovery_state",
    "directories",
)
_SETS = ("isr", "adding_replicas", "removing_replicas", "elr", "last_known_elr")


def comparable(image: Image) -> dict[str, Any]:
    partitions = {
        key: {
            **{name: of[name] for name in _PARTITION},
            **{name: sorted(of[name]) for name in _SETS},
        }
        for key, of in image.partitions.items()
    }
    configs = {resource: values for resource, values in image.configs.items() if values}
    return {**vars(image), "partitions": partitions, "configs": configs}


@pytest.mark.parametrize("seed", range(examples(1)))
def test_silver_is_what_kafka_makes_of_the_log(jvm: Any, seed: int) -> None:
    chance = random.Random(seed)
    entries = RandomLog(chance).grow(60)
    rows, replay, lake, done = rows_of(entries), Replay(jvm), LogLake(narrowed=seed % 2 == 1), 0
    for cut in sorted({*chance.sample(range(9, len(entries)), 8), len(entries)}):
        replay.take(entries[done:cut])
        open_since = lake.state.next_offset if lake.state else 0
        lake.take([row for row in rows[:cut] if row["offset"] >= open_since])
        done = cut
        assert comparable(image_of(lake.live)) == comparable(replay.image())
        assert sorted(told(lake)) == sorted(replay.answers())
    # From Kafka's own snapshot to the same state.
    first = LogLake()
    header, *_, footer = rows_of_snapshot([], entries[-1].offset + 1, 1, START)
    first.take(
        [header, *({**header, **row, "record": "snapshot"} for row in replay.snapshot()), footer]
    )
    assert comparable(image_of(first.live)) == comparable(image_of(lake.live))
    assert sorted(told(first)) == sorted(replay.answers())
