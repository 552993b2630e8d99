"""Digests, of 128 bits, that change when anything covered changes, whatever the order of the
answer.

Of a topic: covered are topic id, error, is_internal and, by partition number, error, leader, epoch,
ordered replicas, sorted ISR and sorted offline replicas; a field that the version lacks (null)
differs from every value. The digest is made against accidents (two states of a topic agree with a
chance of 2^-128), not against adversaries, who could make states that collide.

Version 1. All arithmetic is on unsigned 64-bit integers, modulo 2^64. `u32(x)` and `u16(x)` are the
two's complement of x. ``mix(z)`` is SplitMix64's: z += 0x9E3779B97F4A7C15; z = (z ^ z >> 30) *
0xBF58476D1CE4E5B9; z = (z ^ z >> 27) * 0x94D049BB133111EB; z ^ z >> 31. ``chain(h, w1, ..., wn)``
is h = mix(h ^ w) for each word in turn. The digest is two lanes, seed 0x6B61666B61206D64 and seed
0x6D65746164617461, each as 8 bytes, little-endian. In a lane:

- a list of node ids is the sum of chain(seed, tag, id) over its entries: in replicas, id = position
  << 32 | u32(id)
  with tag 1; in ISR
  and offline replicas, where order means nothing, id = u32(id) with tags 2 and 3; an empty or
  absent list is 0;
- a partition is chain(seed, u32(partition) << 32 | u32(leader), u16(error) << 33 | has epoch << 32
  | u32(epoch or 0),
  lengths,
  replicas, ISR, offline replicas), where lengths = len(replicas) + (len(ISR) << 21) + (len(offline)
  + 1 << 42), the
  last term 0 when offline replicas are absent;
- a topic is chain(seed, sum of its partitions, id, id', id'', u16(error) << 34 | internal << 32 |
  number of
  partitions), where the
  three id words are the 22 characters of the topic id, zero-filled to 24 bytes, little-endian, 0
  when absent, and
  internal is 0 for false, 1 for true, 2 when absent.

Of a whole answer, and of the rows of an enrichment: BLAKE2b of JSON (keys sorted, ASCII, no blanks)
that has this version in it. The JSON of an answer has cluster id, brokers by id, how many topics
there are and what the poll adds; a line feed, the lengths of the topics' names in bytes (32 bits
each, little-endian), these names and the topics' digests follow, all in the order of the names.
Controller id, throttle times and authorized operations are not covered: they change by themselves.
"""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metadata_source.protocol.metadata import ClusterMetadata

Words = npt.NDArray[np.uint64]

DIGEST_VERSION: int = 1

_SEEDS = (0x6B61666B61206D64, 0x6D65746164617461)
_REPLICAS, _ISR, _OFFLINE = 1, 2, 3


def topic_digests(metadata: ClusterMetadata) -> pa.Array:
    """Return one digest a topic (fixed_size_binary(16), not null), as ``metadata.topics``."""
    topics = metadata.topics
    counts = _int64(topics["partition_count"])
    topic_words = _topic_words(topics, counts)
    lanes = [
        _chain(seed, _segment_sums(by_partition, counts), *topic_words)
        for seed, by_partition in zip(_SEEDS, partition_digests(metadata.partitions), strict=True)
    ]
    digests = np.stack(lanes, axis=1).astype("<u8")
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(counts), [None, pa.py_buffer(digests)]
    )


def partition_digests(partitions: pa.Table) -> list[Words]:
    """Return the digest of each partition in both lanes: a word each."""
    words = _partition_words(partitions)
    replicas, isr, offline = (
        _Lists(partitions[name]) for name in ("replicas", "isr", "offline_replicas")
    )
    lengths = (
        replicas.lengths
        + (isr.lengths << 21)
        + (np.where(offline.absent, 0, offline.lengths + 1) << 42)
    )
    return [
        _chain(
            seed,
            *words,
            lengths.view(np.uint64),
            replicas.digest(seed, _REPLICAS, ordered=True),
            isr.digest(seed, _ISR),
            offline.digest(seed, _OFFLINE),
        )
        for seed in _SEEDS
    ]


def answer_digest(metadata: ClusterMetadata, digests: pa.Array, more: Mapping[str, Any]) -> bytes:
    """Return the digest of an answer whose topics have these `digests`; `more` goes into its JSON
    too.

    Topics have names, each another one.
    """
    names = metadata.topics["topic"].combine_chunks()
    order = pc.sort_indices(names)
    names, digests = names.take(order), digests.take(order)
    brokers = sorted(metadata.brokers.to_pylist(), key=lambda broker: int(broker["broker_id"]))
    head = {**more, "cluster_id": metadata.cluster_id, "brokers": brokers, "topics": len(names)}
    lengths = _int64(pc.binary_length(names)).astype("<i4")
    return _blake2b(head, lengths, _joined(names), _joined(digests.cast(pa.binary())))


def rows_digest(rows: Any) -> bytes:
    """Return the digest of rows of an enrichment: plain values and times, in an order of their
    own.
    """
    return _blake2b({"rows": rows})


def _blake2b(head: Mapping[str, Any], *parts: Any) -> bytes:
    versioned = {"digest_version": DIGEST_VERSION, **head}
    text = json.dumps(versioned, sort_keys=True, separators=(",", ":"), default=datetime.isoformat)
    digest = blake2b(f"{text}\n".encode(), digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _joined(texts: pa.Array) -> pa.Buffer:
    """Return all of an array's strings or bytes as one."""
    one = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    return pc.binary_join(one, pa.scalar("", texts.type))[0].as_buffer()


class _Lists:
    """A column of lists of node ids: lengths (0 where absent), and all entries in a row."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        lists = column.combine_chunks()
        self.absent = lists.is_null().to_numpy(zero_copy_only=False)
        self.lengths = _int64(pc.list_value_length(lists).fill_null(0))
        self._nodes = _u32(lists.flatten())

    def digest(self, seed: int, tag: int, *, ordered: bool = False) -> Words:
        """Return a word a list; `ordered` makes it depend on the order of the entries."""
        words = self._nodes
        if ordered:
            firsts = np.cumsum(self.lengths) - self.lengths
            positions = np.arange(len(words)) - np.repeat(firsts, self.lengths)
            words = words | positions.view(np.uint64) << np.uint64(32)
        tagged = _mixed(np.array([seed ^ tag], dtype=np.uint64))
        return _segment_sums(_mixed(words ^ tagged), self.lengths)


def _partition_words(partitions: pa.Table) -> tuple[Words, Words]:
    """Return what of each partition has a fixed size, packed into two words."""
    epochs = partitions["leader_epoch"]
    has_epoch = epochs.is_valid().to_numpy().astype(np.uint64)
    place = _u32(partitions["partition"]) << np.uint64(32) | _u32(partitions["leader"])
    state = (
        _u16(partitions["error_code"]) << np.uint64(33)
        | has_epoch << np.uint64(32)
        | _u32(epochs.fill_null(0))
    )
    return place, state


def _topic_words(topics: pa.Table, counts: npt.NDArray[np.int64]) -> tuple[Words, ...]:
    """Return of each topic what is beside partitions: three words of the id, one of the rest."""
    ids = np.array(topics["topic_id"].fill_null("").to_numpy().astype("S24"))
    id_words = ids.view("<u8").astype(np.uint64).reshape(-1, 3)
    internal = topics["is_internal"].cast(pa.int8()).fill_null(2).to_numpy().astype(np.uint64)
    rest = (
        _u16(topics["error_code"]) << np.uint64(34)
        | internal << np.uint64(32)
        | counts.view(np.uint64)
    )
    return id_words[:, 0], id_words[:, 1], id_words[:, 2], rest


def _chain(seed: int, *words: Words) -> Words:
    state = _mixed(words[0] ^ np.uint64(seed))
    for each in words[1:]:
        state ^= each
        state = _mixed(state)
    return state


def _mixed(words: Words) -> Words:
    """Return SplitMix64's mix of each word: every bit of a word changes about half of the bits."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    shifted = mixed >> np.uint64(30)
    mixed ^= shifted
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    np.right_shift(mixed, np.uint64(27), out=shifted)
    mixed ^= shifted
    mixed *= np.uint64(0x94D049BB133111EB)
    np.right_shift(mixed, np.uint64(31), out=shifted)
    mixed ^= shifted
    return mixed


def _segment_sums(words: Words, lengths: npt.NDArray[np.int64]) -> Words:
    """Return the sum of each run of words modulo 2^64, so differences of sums are exact."""
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=running[1:])
    ends = np.cumsum(lengths)
    sums: Words = running[ends] - running[ends - lengths]
    return sums


def _int64(column: Any) -> npt.NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _u32(column: Any) -> Words:
    return _int64(column).view(np.uint64) & np.uint64(0xFFFFFFFF)


def _u16(column: Any) -> Words:
    return _int64(column).view(np.uint64) & np.uint64(0xFFFF)
