"""Answers that no cluster of the declared kind gives. `metadata_source.kinds` says where the rules come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.facts import LEADER_NOT_AVAILABLE, OFFSETS_TOPIC
from metadata_source.kinds import (
    AUTOMQ,
    CONFLUENT,
    EVENT_HUBS,
    KAFKA,
    KINDS,
    REDPANDA,
    WARPSTREAM,
)
from metadata_source.members import lack_replica
from metadata_source.protocol.oddities import LISTS, have_negatives, have_repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from metadata_source.protocol.metadata import ClusterMetadata

_REDPANDA_ID: Final = "redpanda."
_IN_NAMES: Final = {".servicebus.": EVENT_HUBS, ".confluent.cloud": CONFLUENT, ".warpstream.com": WARPSTREAM}
"""Part of a host, or of a cluster id -> whose it is."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The part of an answer that may contradict a kind.

    `hosts`, `brokers` (ids): of those that are listed. `topics`: names, at least OFFSETS_TOPIC
    where it is there. `partitions`: columns error_code, leader, replicas, isr, offline_replicas, of some or all.
    `has_flat_epochs`: whether most leaders moved in the same leader epoch since the answer before.
    """

    cluster_id: str | None
    hosts: Collection[str]
    brokers: Collection[int]
    topics: Collection[str]
    partitions: pa.Table
    has_flat_epochs: bool = False

    @classmethod
    def of(cls, metadata: ClusterMetadata) -> Evidence:
        """The evidence of one whole answer."""
        is_there = pc.any(pc.equal(metadata.topics["topic"], OFFSETS_TOPIC)).as_py()
        return cls(
            metadata.cluster_id,
            metadata.brokers["host"].to_pylist(),
            metadata.brokers["broker_id"].to_pylist(),
            [OFFSETS_TOPIC] if is_there else [],
            metadata.partitions,
        )


def contradictions(kind: str, found: Evidence) -> list[str]:
    """The signs in an answer that no cluster of this kind gives, sorted: `name: sentence`."""
    named = {*_named(found.cluster_id, found.hosts)} - {kind}
    names = [f"names: the cluster id, or a host, is one of {KINDS[other].maker}" for other in named]
    return sorted(names + [sign for sign, (kinds, is_seen) in SIGNS.items() if kind in kinds and is_seen(found)])


def _named(cluster_id: str | None, hosts: Iterable[str]) -> Iterator[str]:
    """The kinds whose names these are."""
    if cluster_id is not None and cluster_id.startswith(_REDPANDA_ID):
        yield REDPANDA
    for name in filter(None, (cluster_id, *hosts)):
        yield from (kind for part, kind in _IN_NAMES.items() if part in name.lower())


def _has_unlisted_in_sync(found: Evidence) -> bool:
    """Whether an ISR of a partition with a leader has a broker that is neither listed nor offline.

    Kafka calls a replica offline if its broker is not listed (KRaftMetadataCache.getOfflineReplicas), for whatever
    reason. Answers before Metadata v5 do not say who is offline.
    """
    partitions = found.partitions.filter(pc.and_(_is_led(found), pc.is_valid(found.partitions["offline_replicas"])))
    in_sync, offline = (_pairs(partitions, name) for name in ("isr", "offline_replicas"))
    listed = pa.array(list(found.brokers), pa.int32())
    unlisted = in_sync.filter(pc.invert(pc.is_in(in_sync["broker_id"], listed)))
    return bool(unlisted.join(offline, ["row", "broker_id"], join_type="left anti").num_rows if len(unlisted) else 0)


def _names_leader_with_error(found: Evidence) -> bool:
    return _any(pc.and_(_is_led(found), pc.equal(found.partitions["error_code"], LEADER_NOT_AVAILABLE)))


def _has_leader_without_replica(found: Evidence) -> bool:
    return _any(pc.and_(_is_led(found), pc.equal(_sizes(found, "replicas"), 0)))


def _has_several_replicas(found: Evidence) -> bool:
    return _any(pc.greater(_sizes(found, "replicas"), 1))


def _lacks_replica(found: Evidence) -> bool:
    """Whether an ISR lacks a replica, or a replica is offline."""
    return bool(lack_replica(found.partitions).any()) or _any(pc.greater(_sizes(found, "offline_replicas"), 0))


def _lists_twice(found: Evidence) -> bool:
    return any(have_repeats(found.partitions[name].combine_chunks()).any() for name in LISTS)


def _lists_nobody(found: Evidence) -> bool:
    return any(have_negatives(found.partitions[name].combine_chunks()).any() for name in LISTS)


def _is_led(found: Evidence) -> pa.ChunkedArray:
    return pc.greater_equal(found.partitions["leader"], 0)


def _pairs(partitions: pa.Table, name: str) -> pa.Table:
    """The row and the broker of each value of a column of lists."""
    lists = partitions[name].combine_chunks()
    return pa.table({"row": pc.list_parent_indices(lists), "broker_id": pc.list_flatten(lists)})


def _sizes(found: Evidence, name: str) -> pa.ChunkedArray:
    return pc.list_value_length(found.partitions[name])


def _any(mask: pa.ChunkedArray) -> bool:
    return bool(pc.any(mask).as_py())


UNLISTED_IN_SYNC: Final = (
    "unlisted_in_sync: an ISR has a broker that is neither listed nor offline, as those of Redpanda do"
)
NEED_TWO_ANSWERS: Final = frozenset({UNLISTED_IN_SYNC})
"""The signs that one answer of the kind may give after all: Kafka reads the topics of an answer from one image and then
the brokers from another (``KafkaApis.handleTopicMetadataRequest``), between which a broker may have been fenced.
"""

FLAT_EPOCHS: Final = "flat_epochs: most leaders moved in the same leader epoch, as those of WarpStream do"
"""The sign after which such moves are kept out of history."""

_IMAGES: Final = frozenset({KAFKA, CONFLUENT, AUTOMQ})
"""The kinds whose brokers answer from images of Kafka's controllers."""

SIGNS: Final[Mapping[str, tuple[frozenset[str], Callable[[Evidence], bool]]]] = {
    "listed_twice: a broker is twice among a partition's replicas, in its ISR, or among its offline replicas, which no "
    "maker's brokers mean; such a list is unknown": (frozenset(KINDS), _lists_twice),
    "no_broker: a negative id is among a partition's replicas, in its ISR, or among its offline replicas, which no "
    "maker's brokers mean; such a list is unknown": (frozenset(KINDS), _lists_nobody),
    FLAT_EPOCHS: (_IMAGES, lambda found: found.has_flat_epochs),
    UNLISTED_IN_SYNC: (_IMAGES, _has_unlisted_in_sync),
    "guessed_leader: a leader is named with error 5 (no leader), as Redpanda does": (
        frozenset(KINDS) - {REDPANDA},
        _names_leader_with_error,
    ),
    "no_replicas: a partition has a leader and no replica, as those of Azure Event Hubs do": (
        _IMAGES | {REDPANDA},
        _has_leader_without_replica,
    ),
    "several_replicas: a partition has several replicas; those of AutoMQ have one": (
        frozenset({AUTOMQ}),
        _has_several_replicas,
    ),
    "isr_lacks_replica: an ISR lacks a replica, or a replica is offline; Redpanda answers neither": (
        frozenset({REDPANDA}),
        _lacks_replica,
    ),
    "names: the cluster id does not begin with redpanda.": (
        frozenset({REDPANDA}),
        lambda found: not (found.cluster_id or _REDPANDA_ID).startswith(_REDPANDA_ID),
    ),
    "several_brokers: several brokers are listed; Azure Event Hubs lists one": (
        frozenset({EVENT_HUBS}),
        lambda found: len(found.brokers) > 1,
    ),
    f"offsets_topic: there is a topic {OFFSETS_TOPIC}; Azure Event Hubs has none": (
        frozenset({EVENT_HUBS}),
        lambda found: OFFSETS_TOPIC in found.topics,
    ),
}
"""Sign -> the kinds that it contradicts, and whether an answer shows it."""
