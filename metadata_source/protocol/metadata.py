"""Metadata requests and responses, versions 0 to 13: bytes in, Arrow out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from metadata_source.protocol.encoding import check_version
from metadata_source.protocol.exact import Columns, Reader
from metadata_source.protocol.metadata_fast import read_topics
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.vectors import uuid_texts
from metadata_source.protocol.writing import write_message

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_UUID = bytes(16)

# Below this many bytes reading field by field takes less time than NumPy's calls, however few bytes
# they work on.
_LARGE = 2048

BROKERS = pa.schema(
    [
        pa.field("broker_id", pa.int32(), nullable=False),
        pa.field("host", pa.string(), nullable=False),
        pa.field("port", pa.int32(), nullable=False),
        pa.field("rack", pa.string()),
    ]
)
TOPICS = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("error_code", pa.int32(), nullable=False),
        pa.field("is_internal", pa.bool_()),
        pa.field("authorized_operations", pa.int32()),
        pa.field("partition_count", pa.int32(), nullable=False),
    ]
)
_NAME = pa.dictionary(pa.int32(), pa.string())
_NODES = pa.list_(pa.field("item", pa.int32(), nullable=False))
PARTITIONS = pa.schema(
    [
        pa.field("topic", _NAME),
        pa.field("topic_id", _NAME),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("error_code", pa.int32(), nullable=False),
        pa.field("leader", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("replicas", _NODES, nullable=False),
        pa.field("isr", _NODES, nullable=False),
        pa.field("offline_replicas", _NODES),
    ]
)


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """One Metadata response. What its version lacks is None, or a column of nulls.

    Values are as on the wire: leader -1 (none), authorized operations -2147483648 (not asked for).
    Only a topic id of zeros (none, as for a topic that does not exist) is null. Tables keep the
    response's order; schemas: `BROKERS`, `TOPICS`, `PARTITIONS`.
    """

    cluster_id: str | None
    controller_id: int | None
    throttle_time_ms: int | None
    error_code: int | None
    cluster_authorized_operations: int | None
    brokers: pa.Table
    topics: pa.Table
    partitions: pa.Table


def encode_request(
    version: int, topics: Sequence[str] | None = None, *, with_operations: bool = False
) -> bytes:
    """Return the body of a MetadataRequest for these topics; None asks for every topic, an empty
    list for none.

    It never asks for a topic to be created: from version 4 on the request says so; before, there is
    no such field, and a broker with ``auto.create.topics.enable`` creates topics that are asked for
    by name. Authorized operations are asked for of topics alone, and only if `with_operations`. In
    version 0 "every topic" is an empty array (so "no topic" cannot be said: ValueError), from
    version 1 on a null one.
    """
    check_version(METADATA_REQUEST, version)
    entries = None if topics is None else [{"topic_id": NO_UUID, "name": name} for name in topics]
    if version == 0:
        if entries == []:
            raise ValueError(
                "MetadataRequest v0 cannot ask for no topic: there, an empty list means every topic"
            )
        entries = entries or []
    return write_message(
        METADATA_REQUEST,
        version,
        {
            "topics": entries,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": with_operations,
        },
    )


def decode_response(body: bytes, version: int, *, deadline: float = math.inf) -> ClusterMetadata:
    """Return what a MetadataResponse says. `body` is without size and response header.

    Raises ProtocolError for bytes that are not such a response, TooSlowError for one of unusual
    shape that is not read by `deadline` (of `time.monotonic`), ValueError for a version that does
    not exist.
    """
    columns = _read_fast(body, version, deadline) if len(body) >= _LARGE else None
    return _cluster_metadata(
        columns or Reader(body, METADATA_RESPONSE, version, deadline=deadline).read_message()
    )


def _read_fast(body: bytes, version: int, deadline: float = math.inf) -> Columns | None:
    """Return the columns of a response whose topics are of the usual shape, else None."""
    reader = Reader(body, METADATA_RESPONSE, version, deadline=deadline)
    for each in METADATA_RESPONSE.body.in_version(version):
        if each.name == "topics":
            count = reader.read_count(each)
            topics = read_topics(body, reader.position, count, version)
            if topics is None:
                return None
            columns, reader.position = topics
            reader.columns |= columns
        else:
            reader.read_field(each)
    reader.finish()
    return reader.columns


def _cluster_metadata(columns: Columns) -> ClusterMetadata:
    topics = _topics(columns)
    return ClusterMetadata(
        cluster_id=_only(columns, "cluster_id"),
        controller_id=_only(columns, "controller_id"),
        throttle_time_ms=_only(columns, "throttle_time_ms"),
        error_code=_only(columns, "error_code"),
        cluster_authorized_operations=_only(columns, "cluster_authorized_operations"),
        brokers=_brokers(columns),
        topics=topics,
        partitions=_partitions(columns, topics),
    )


def _only(columns: Columns, key: str) -> Any:
    """Return the value of a field of the message itself, None if the version lacks it."""
    column = columns.get(key)
    return None if column is None else column[0]


def _brokers(columns: Columns) -> pa.Table:
    return pa.table(
        [
            _ints(columns, "brokers.node_id"),
            _strings(columns, "brokers.host"),
            _ints(columns, "brokers.port"),
            _strings(columns, "brokers.rack", len(columns.get("brokers.node_id", ()))),
        ],
        schema=BROKERS,
    )


def _topics(columns: Columns) -> pa.Table:
    partition_counts = _ints(columns, "topics.partitions")
    count = len(partition_counts)
    return pa.table(
        [
            _strings(columns, "topics.name", count),
            _uuid_texts(columns.get("topics.topic_id"), count),
            _ints(columns, "topics.error_code"),
            _flags(columns, "topics.is_internal", count),
            _ints(columns, "topics.topic_authorized_operations", count),
            partition_counts,
        ],
        schema=TOPICS,
    )


def _partitions(columns: Columns, topics: pa.Table) -> pa.Table:
    key = "topics.partitions."
    partitions = _ints(columns, key + "partition_index")
    count = len(partitions)
    return pa.table(
        [
            _repeated(topics["topic"], topics["partition_count"]),
            _repeated(topics["topic_id"], topics["partition_count"]),
            partitions,
            _ints(columns, key + "error_code"),
            _ints(columns, key + "leader_id"),
            _ints(columns, key + "leader_epoch", count),
            _lists(columns, key + "replica_nodes", count),
            _lists(columns, key + "isr_nodes", count),
            _lists(columns, key + "offline_replicas", count),
        ],
        schema=PARTITIONS,
    )


# Each of these takes the number of rows that a column of nulls must have: a version that lacks a
# field has no column for it.


def _ints(columns: Columns, key: str, count: int = 0) -> pa.Array:
    column = columns.get(key)
    return (
        pa.nulls(count, pa.int32())
        if column is None
        else pa.array(np.asarray(column, dtype=np.int32))
    )


def _flags(columns: Columns, key: str, count: int) -> pa.Array:
    column = columns.get(key)
    return (
        pa.nulls(count, pa.bool_())
        if column is None
        else pa.array(np.asarray(column, dtype=np.bool_))
    )


def _strings(columns: Columns, key: str, count: int = 0) -> pa.Array:
    column = columns.get(key)
    if isinstance(column, pa.Array):
        return column
    return pa.nulls(count, pa.string()) if column is None else pa.array(column, pa.string())


def _lists(columns: Columns, key: str, count: int) -> pa.Array:
    lengths = columns.get(key)
    if lengths is None:
        return pa.nulls(count, _NODES)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, dtype=np.int32, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), _ints(columns, key + ".item"), type=_NODES)


def _uuid_texts(column: Any, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, pa.string())
    return uuid_texts(
        np.frombuffer(column if isinstance(column, bytes) else b"".join(column), dtype=np.uint8)
    )


def _repeated(names: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return each topic's name once a partition, dictionary-encoded; names that are there twice are
    one dictionary entry.
    """
    encoded = names.combine_chunks().dictionary_encode()
    indices: npt.NDArray[np.int32] = encoded.indices.fill_null(-1).to_numpy()
    repeated = np.repeat(indices, counts.to_numpy())
    nulls = repeated < 0 if encoded.null_count else None
    return pa.DictionaryArray.from_arrays(pa.array(repeated, mask=nulls), encoded.dictionary)
