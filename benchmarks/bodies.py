"""Metadata responses as a cluster of some size would send them, made with NumPy since large ones
are wanted in a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKERS = 12
REPLICATION = 3


def metadata_response(
    version: int,
    topics: int,
    partitions: int,
    *,
    shrunk: float = 0.0,
    seed: int = 1,
    addresses: Sequence[tuple[str, int]] = (),
) -> bytes:
    """Return the body of a response (versions 5 to 13) in which a `shrunk` share of all partitions
    has lost one replica of its ISR.

    `addresses`: hosts and ports that brokers have in turn, where they should be reached.
    """
    random = np.random.default_rng(seed)
    rows, row_ends = _partitions(random, version, topics, partitions, shrunk)
    topic_ends = row_ends.reshape(topics, partitions)[:, -1].tolist()
    count = _length(version, partitions)
    tail = (b"\x80\0\0\0" if version >= 8 else b"") + _tags(version)
    parts = []
    start = 0
    for index, end in enumerate(topic_ends):
        name = f"orders.region-{index % 7}.events-{index}".encode()
        topic_id = random.bytes(16) if version >= 10 else b""
        parts += [
            b"\0\0",
            _string_length(version, len(name)),
            name,
            topic_id,
            b"\0",
            count,
            rows[start:end],
            tail,
        ]
        start = end
    empty = write_message(
        METADATA_RESPONSE,
        version,
        {
            "throttle_time_ms": 0,
            "brokers": [
                {"node_id": node, "host": host, "port": port, "rack": f"zone-{node % 3}"}
                for node, (host, port) in enumerate(_places(addresses))
            ],
            "cluster_id": "Gv3gTtrhRZeNjtLk9YJ3_w",
            "controller_id": 1,
            "topics": [],
            "cluster_authorized_operations": -(2**31),
            "error_code": 0,
        },
    )
    after = (4 if 8 <= version <= 10 else 0) + (2 if version >= 13 else 0) + len(_tags(version))
    head = empty[: len(empty) - after - len(_length(version, 0))]
    return b"".join([head, _length(version, topics), *parts, empty[len(empty) - after :]])


def _places(addresses: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    if not addresses:
        return [(f"broker-{node}.kafka.internal", 9092) for node in range(BROKERS)]
    return [addresses[node % len(addresses)] for node in range(BROKERS)]


def _partitions(
    random: np.random.Generator, version: int, topics: int, partitions: int, shrunk: float
) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Return all partition entries, and where each ends."""
    count = topics * partitions
    replicas = (random.integers(BROKERS, size=(count, 1)) + np.arange(REPLICATION)) % BROKERS
    is_shrunk = random.random(count) < shrunk
    in_sync = np.ones((count, REPLICATION), dtype=bool)
    in_sync[is_shrunk, random.integers(1, REPLICATION, size=np.count_nonzero(is_shrunk))] = False
    pieces = [
        np.zeros((count, 2), dtype=np.uint8),
        _int32(np.tile(np.arange(partitions), topics)[:, None]),
        _int32(replicas[:, :1]),
        *([_int32(random.integers(200, size=(count, 1)))] if version >= 7 else []),
        _lengths(version, np.full(count, REPLICATION)),
        _int32(replicas),
        _lengths(version, in_sync.sum(axis=1)),
        _int32(replicas),
        _lengths(version, np.zeros(count, dtype=int)),
        np.zeros((count, len(_tags(version))), dtype=np.uint8),
    ]
    kept = [np.ones(piece.shape, dtype=bool) for piece in pieces]
    isr = len(pieces) - 3
    kept[isr] = np.repeat(in_sync, 4, axis=1)
    kept_bytes = np.concatenate(kept, axis=1)
    return np.concatenate(pieces, axis=1)[kept_bytes].tobytes(), np.cumsum(kept_bytes.sum(axis=1))


def _int32(values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return values.astype(">i4").view(np.uint8)


def _lengths(version: int, values: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    return (values[:, None] + 1).astype(np.uint8) if version >= 9 else _int32(values[:, None])


def _length(version: int, value: int) -> bytes:
    if version < 9:
        return value.to_bytes(4)
    value += 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _string_length(version: int, value: int) -> bytes:
    return _length(version, value) if version >= 9 else value.to_bytes(2)


def _tags(version: int) -> bytes:
    return b"\0" if version >= 9 else b""
