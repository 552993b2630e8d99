"""Answers of brokers as images of a cluster: the topics that a filter covers, how two differ, and
which is older.

A broker answers from an image of the metadata log. A broker that is cut off from the controllers
answers from an image that has stopped. Leader epochs never fall (KIP-101), so of two images the one
with lower epochs is older, unless a topic without an id was made again. A change of the ISR alone
raises no epoch from metadata.version 3.6-IV0 on; then the list of brokers tells: the controllers
fence a broker that they do not hear from, and no newer image lists a fenced broker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.options.readers import whole_name
from metadata_source.protocol.digest import partition_digests, topic_digests

if TYPE_CHECKING:
    from metadata_source.options import TopicFilter
    from metadata_source.protocol.metadata import ClusterMetadata

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Image:
    """An answer in short: the names of its topics, a digest (16 bytes) of each, and its brokers
    (id, host, port, rack) in the order of their ids.
    """

    names: pa.Array
    digests: pa.Array
    brokers: tuple[tuple[object, ...], ...]

    @classmethod
    def of(cls, metadata: ClusterMetadata) -> Self:
        """The image that an answer shows."""
        brokers = metadata.brokers.to_pylist()
        return cls(
            metadata.topics["topic"].combine_chunks(),
            topic_digests(metadata).cast(pa.binary()),
            tuple(sorted(tuple(broker.values()) for broker in brokers)),
        )

    def changed(self, before: Self | None) -> Mask:
        """Which topics are not as in an image before; all of them if there was none."""
        if before is None:
            return np.ones(len(self.names), np.bool_)
        known = before.digests.take(pc.index_in(self.names, before.names))
        same: Mask = (
            pc.equal(known, self.digests).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        )
        return ~same

    def lacks(self, known: Self, newer: Self) -> bool:
        """Whether this image is surely older than a known one: it differs where a newer one shows
        that still.
        """
        kept = newer.names.filter(pa.array(~newer.changed(known)))
        differing = self.names.filter(pa.array(self.changed(known)))
        is_short = bool(pc.any(pc.is_in(differing, kept)).as_py())
        return is_short or self.brokers != known.brokers == newer.brokers

    def gone(self, before: Self | None) -> pa.Array:
        """The names of topics that an image before had and this one has not."""
        if before is None:
            return self.names.slice(0, 0)
        return before.names.filter(pc.invert(pc.is_in(before.names, self.names)))

    def news(self, before: Self) -> list[str] | None:
        """The names of topics that differ from an image before; None where nothing does, the
        brokers neither.
        """
        names = [
            *self.names.filter(pa.array(self.changed(before))).to_pylist(),
            *self.gone(before).to_pylist(),
        ]
        return names if names or self.brokers != before.brokers else None


class Age(StrEnum):
    """The age of an answer beside another one."""

    SAME, OLDER, NEWER, UNCLEAR = "same", "older", "newer", "unclear"


@dataclass(frozen=True, slots=True)
class Difference:
    """How an answer differs from another one about the same topics.

    `age`: of the answer beside the other one. `partitions`: how many differ in anything. `epochs`:
    by how much the leader epochs of the older one are lower, in all.
    """

    age: Age
    partitions: int
    epochs: int


SAME: Final = Difference(Age.SAME, 0, 0)


def difference(
    one: ClusterMetadata, one_id: int | None, other: ClusterMetadata, other_id: int | None
) -> Difference:
    """Compare an answer with another one about the same topics; the ids are of the brokers that
    answered.

    A topic that only one of them has, or has under another id (made again), tells no age.
    """
    keys, other_keys = _keys(one, other)
    epochs, other_epochs = (_epochs(each) for each in (one, other))
    digests, other_digests = (partition_digests(each.partitions)[0] for each in (one, other))
    _, here, there = np.intersect1d(keys, other_keys, assume_unique=True, return_indices=True)
    by = np.where(
        (epochs[here] < 0) | (other_epochs[there] < 0), 0, epochs[here] - other_epochs[there]
    )
    lower, higher = int(-by[by < 0].sum()), int(by[by > 0].sum())
    alone = len(keys) + len(other_keys) - 2 * len(here)
    partitions = int(np.count_nonzero(digests[here] != other_digests[there])) + alone
    listed, other_listed = _listed(one), _listed(other)
    is_out, is_other_out = one_id in listed - other_listed, other_id in other_listed - listed
    by_list = None if is_out == is_other_out else Age.OLDER if is_out else Age.NEWER
    if lower or higher:
        age = Age.UNCLEAR if lower and higher else Age.OLDER if lower else Age.NEWER
        if by_list not in (None, age) and not _have_ids(one, other):
            age = Age.UNCLEAR  # A topic that was made again has lower epochs.
    elif by_list is not None:
        age = by_list
    elif Image.of(one).news(Image.of(other)) is not None:
        age = Age.UNCLEAR
    else:
        age = Age.SAME
    return Difference(age, partitions, max(lower, higher))


def covered(
    names: pa.Array | pa.ChunkedArray, topic_filter: TopicFilter
) -> pa.Array | pa.ChunkedArray | None:
    """Which of these topics the filter covers; None for every one."""
    if topic_filter.pattern is not None:
        return pc.match_substring_regex(names, whole_name(topic_filter.pattern))
    if topic_filter.topics is not None:
        return pc.is_in(names, pa.array(topic_filter.topics, pa.string()))
    return None


def filtered(metadata: ClusterMetadata, topic_filter: TopicFilter) -> ClusterMetadata:
    """The metadata with the topics that the filter covers only."""
    mask = covered(metadata.topics["topic"].combine_chunks(), topic_filter)
    return metadata if mask is None else with_topics(metadata, mask)


def with_topics(metadata: ClusterMetadata, mask: pa.Array | pa.ChunkedArray) -> ClusterMetadata:
    """The metadata with those topics only."""
    mask = mask.fill_null(fill_value=False)
    counts = metadata.topics["partition_count"].to_numpy()
    of_partitions = np.repeat(mask.to_numpy(zero_copy_only=False), counts)
    return replace(
        metadata,
        topics=metadata.topics.filter(mask),
        partitions=metadata.partitions.filter(pa.array(of_partitions)),
    )


def _keys(*answers: ClusterMetadata) -> list[npt.NDArray[np.int64]]:
    """A number for each partition, the same in each of the answers."""
    columns = ["topic", "topic_id"] if _have_ids(*answers) else ["topic"]
    names = [
        pc.binary_join_element_wise(*(answer.topics[name] for name in columns), " ")
        for answer in answers
    ]
    known = pc.unique(
        pa.chunked_array([chunk for each in names for chunk in each.chunks], pa.string())
    )
    keys = []
    for answer, each in zip(answers, names, strict=True):
        topics = pc.index_in(each, known).to_numpy().astype(np.int64)
        of_partition = np.repeat(topics, answer.topics["partition_count"].to_numpy())
        keys.append(of_partition << 32 | answer.partitions["partition"].to_numpy().astype(np.int64))
    return keys


def _have_ids(*answers: ClusterMetadata) -> bool:
    """Whether all topics have ids; they lack them if a broker answers in an older version."""
    return not any(answer.topics["topic_id"].null_count for answer in answers)


def _epochs(answer: ClusterMetadata) -> npt.NDArray[np.int64]:
    """Leader epochs of the partitions, -1 where they are not told."""
    epochs: npt.NDArray[np.int64] = (
        answer.partitions["leader_epoch"].fill_null(-1).to_numpy().astype(np.int64)
    )
    return epochs


def _listed(answer: ClusterMetadata) -> set[int]:
    return set(answer.brokers["broker_id"].to_pylist())
