"""Requests for a log, and the responses, as tables: the log itself, and of controllers a snapshot of what theirs has
lost, and who leads the quorum.

They follow Kafka's definitions (``clients/src/main/resources/common/message/Fetch*.json`` and
``DescribeQuorum*.json``). Record batches within them are bytes here: see `record_batches`.
"""

from __future__ import annotations

from metadata_source.protocol.spec import Array, Field, Primitive, Struct, api, structs

_INT8, _INT16, _UINT16, _INT32, _INT64 = (
    Primitive.INT8,
    Primitive.INT16,
    Primitive.UINT16,
    Primitive.INT32,
    Primitive.INT64,
)
_STRING, _BYTES, _UUID = Primitive.STRING, Primitive.BYTES, Primitive.UUID
NO_DIRECTORY = bytes(16)
_TOPIC = (Field("topic", _STRING, until=12), Field("topic_id", _UUID, since=13))


def _by_partition(name: str, topic: Field, *of_partition: Field) -> Field:
    """Return topics, each with its partitions."""
    return Field(name, structs(topic, Field("partitions", structs(*of_partition))))


def _tagged_struct(tag: int, name: str, default: int, *fields: Field, since: int = 0) -> Field:
    """Return a struct that is absent where all of its fields are the default."""
    return Field(name, Struct(fields), since=since, tag=tag, default={each.name: default for each in fields})


def _by_topic(name: str, *of_partition: Field) -> Field:
    """Return topics, by name or by id, each with its partitions."""
    return Field(name, structs(*_TOPIC, Field("partitions", structs(*of_partition))))


def _cluster_id(since: int) -> Field:
    return Field("cluster_id", _STRING, since=since, nullable=since, tag=0)


_EPOCH, _END_OFFSET = Field("epoch", _INT32), Field("end_offset", _INT64)
_LEADER = (Field("leader_id", _INT32), Field("leader_epoch", _INT32))

# Before version 4 brokers make messages of formats 0 and 1 of all records. Before version 13 topics are asked for by
# name, which controllers refuse.
FETCH = api(
    "Fetch",
    1,
    lowest=4,
    last_version=17,
    flexible_since=12,
    request=(
        _cluster_id(12),
        Field("replica_id", _INT32, until=14),
        Field(
            "replica_state",
            Struct((Field("replica_id", _INT32), Field("replica_epoch", _INT64))),
            since=15,
            tag=1,
            default={"replica_id": -1, "replica_epoch": -1},
        ),
        Field("max_wait_ms", _INT32),
        Field("min_bytes", _INT32),
        Field("max_bytes", _INT32),
        Field("isolation_level", _INT8),
        Field("session_id", _INT32, since=7),
        Field("session_epoch", _INT32, since=7),
        _by_topic(
            "topics",
            Field("partition", _INT32),
            Field("current_leader_epoch", _INT32, since=9),
            Field("fetch_offset", _INT64),
            Field("last_fetched_epoch", _INT32, since=12),
            Field("log_start_offset", _INT64, since=5),
            Field("partition_max_bytes", _INT32),
            Field("replica_directory_id", _UUID, since=17, tag=0, default=NO_DIRECTORY),
        ),
        Field("forgotten_topics_data", structs(*_TOPIC, Field("partitions", Array(_INT32))), since=7),
        Field("rack_id", _STRING, since=11),
    ),
    response=(
        Field("throttle_time_ms", _INT32),
        Field("error_code", _INT16, since=7),
        Field("session_id", _INT32, since=7),
        _by_topic(
            "responses",
            Field("partition_index", _INT32),
            Field("error_code", _INT16),
            Field("high_watermark", _INT64),
            Field("last_stable_offset", _INT64),
            Field("log_start_offset", _INT64, since=5),
            _tagged_struct(0, "diverging_epoch", -1, _EPOCH, _END_OFFSET, since=12),
            _tagged_struct(1, "current_leader", -1, *_LEADER, since=12),
            _tagged_struct(2, "snapshot_id", -1, _END_OFFSET, _EPOCH, since=12),
            Field(
                "aborted_transactions",
                structs(Field("producer_id", _INT64), Field("first_offset", _INT64)),
                nullable=0,
            ),
            Field("preferred_read_replica", _INT32, since=11),
            Field("records", _BYTES, nullable=0),
        ),
        Field(
            "node_endpoints",
            structs(
                Field("node_id", _INT32),
                Field("host", _STRING),
                Field("port", _INT32),
                Field("rack", _STRING, nullable=0),
            ),
            since=16,
            tag=0,
            default=[],
        ),
    ),
)

_SNAPSHOT_ID = Field("snapshot_id", Struct((_END_OFFSET, _EPOCH)))

FETCH_SNAPSHOT = api(
    "FetchSnapshot",
    59,
    last_version=1,
    flexible_since=0,
    request=(
        _cluster_id(0),
        Field("replica_id", _INT32),
        Field("max_bytes", _INT32),
        _by_partition(
            "topics",
            Field("name", _STRING),
            Field("partition", _INT32),
            Field("current_leader_epoch", _INT32),
            _SNAPSHOT_ID,
            Field("position", _INT64),
            Field("replica_directory_id", _UUID, since=1, tag=0, default=NO_DIRECTORY),
        ),
    ),
    response=(
        Field("throttle_time_ms", _INT32),
        Field("error_code", _INT16),
        _by_partition(
            "topics",
            Field("name", _STRING),
            Field("index", _INT32),
            Field("error_code", _INT16),
            _SNAPSHOT_ID,
            _tagged_struct(0, "current_leader", 0, *_LEADER),
            Field("size", _INT64),
            Field("position", _INT64),
            Field("unaligned_records", _BYTES),
        ),
        Field(
            "node_endpoints",
            structs(Field("node_id", _INT32), Field("host", _STRING), Field("port", _UINT16)),
            since=1,
            tag=0,
            default=[],
        ),
    ),
)

_REPLICAS = structs(
    Field("replica_id", _INT32),
    Field("replica_directory_id", _UUID, since=2),
    Field("log_end_offset", _INT64),
    Field("last_fetch_timestamp", _INT64, since=1),
    Field("last_caught_up_timestamp", _INT64, since=1),
)
_ERROR_MESSAGE = Field("error_message", _STRING, since=2, nullable=2)

DESCRIBE_QUORUM = api(
    "DescribeQuorum",
    55,
    last_version=2,
    flexible_since=0,
    request=(_by_partition("topics", Field("topic_name", _STRING), Field("partition_index", _INT32)),),
    response=(
        Field("error_code", _INT16),
        _ERROR_MESSAGE,
        _by_partition(
            "topics",
            Field("topic_name", _STRING),
            Field("partition_index", _INT32),
            Field("error_code", _INT16),
            _ERROR_MESSAGE,
            *_LEADER,
            Field("high_watermark", _INT64),
            Field("current_voters", _REPLICAS),
            Field("observers", _REPLICAS),
        ),
        Field(
            "nodes",
            structs(
                Field("node_id", _INT32),
                Field("listeners", structs(Field("name", _STRING), Field("host", _STRING), Field("port", _UINT16))),
            ),
            since=2,
        ),
    ),
)
