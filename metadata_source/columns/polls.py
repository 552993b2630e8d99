"""Columns of `bronze.metadata_polls`."""

from typing import Final

import pyarrow as pa

from metadata_source.columns import BYTES, FLAG, INT, LONG, TEXT, TIME, struct


def _list_of(element: pa.DataType) -> pa.ListType:
    return pa.list_(pa.field("element", element))


_NODES: Final = pa.list_(pa.field("element", INT, nullable=False))
PARTITION: Final = pa.struct(
    [
        pa.field("partition", INT, nullable=False),
        pa.field("error_code", INT, nullable=False),
        pa.field("leader", INT, nullable=False),
        pa.field("leader_epoch", INT),
        pa.field("replicas", _NODES, nullable=False),
        pa.field("isr", _NODES, nullable=False),
        pa.field("offline_replicas", _NODES),
    ]
)
BROKER: Final = pa.struct(
    [
        pa.field("broker_id", INT, nullable=False),
        pa.field("host", TEXT, nullable=False),
        pa.field("port", INT, nullable=False),
        pa.field("rack", TEXT),
    ]
)
# Nullable throughout, as all that most rows have none of: what casts a column looks at what is
# under its nulls too.
_WITNESS: Final = struct(
    broker_id=INT,
    broker=TEXT,
    sent_at=TIME,
    received_at=TIME,
    error_kind=TEXT,
    is_behind=FLAG,
    behind_ms=LONG,
    partitions_behind=INT,
    epochs_behind=LONG,
)
_REASSIGNMENT: Final = pa.struct(
    [
        pa.field("partition", INT, nullable=False),
        pa.field("adding", _NODES, nullable=False),
        pa.field("removing", _NODES, nullable=False),
    ]
)
_QUORUM: Final = struct(
    leader_id=INT,
    leader_epoch=INT,
    voters=_NODES,
    observers=_NODES,
)
QUORUM_REPLICA: Final = struct(
    replica_id=INT,
    is_voter=FLAG,
    is_behind=FLAG,
    log_end_offset=LONG,
    last_fetch_at=TIME,
    last_caught_up_at=TIME,
)
_ELR: Final = pa.struct(
    [
        pa.field("partition", INT, nullable=False),
        pa.field("elr", _NODES, nullable=False),
        pa.field("last_known_elr", _NODES, nullable=False),
    ]
)


_ASSIGNED: Final = _list_of(
    pa.struct([("topic_id", TEXT), ("topic", TEXT), ("partitions", _list_of(INT))])
)
_TASKS: Final = _list_of(pa.struct([("subtopology_id", TEXT), ("partitions", _list_of(INT))]))
MEMBER: Final = struct(
    member_id=TEXT,
    instance_id=TEXT,
    rack=TEXT,
    client_id=TEXT,
    client_host=TEXT,
    epoch=INT,
    topics=_list_of(TEXT),
    regex=TEXT,
    assigned=_ASSIGNED,
    target=_ASSIGNED,
    active_tasks=_TASKS,
    standby_tasks=_TASKS,
    warmup_tasks=_TASKS,
    target_active_tasks=_TASKS,
    target_standby_tasks=_TASKS,
    target_warmup_tasks=_TASKS,
)
_GROUP: Final = struct(
    group_id=TEXT,
    group_type=TEXT,
    protocol_type=TEXT,
    state=TEXT,
    error=TEXT,
    group_epoch=INT,
    target_epoch=INT,
    topology_epoch=INT,
    assignor=TEXT,
    members=_list_of(MEMBER),
)

OFFSET: Final = struct(
    group_id=TEXT,
    is_simple=FLAG,
    topic=TEXT,
    partition=INT,
    committed_offset=LONG,
    committed_leader_epoch=INT,
    log_start=LONG,
    log_end=LONG,
    error=TEXT,
    commit_read_after=TIME,
    commit_read_before=TIME,
    ends_read_after=TIME,
    ends_read_before=TIME,
    last_stable=LONG,
)
"""Nullable throughout, as all that most rows have none of."""
OFFSETS: Final = _list_of(OFFSET)
TRANSACTION_PARTITION: Final = struct(topic=TEXT, partition=INT)
TRANSACTION: Final = struct(
    is_hanging=FLAG,
    transactional_id=TEXT,
    state=TEXT,
    error=TEXT,
    coordinator=INT,
    producer_id=LONG,
    producer_epoch=INT,
    timeout_ms=INT,
    started_at=TIME,
    partition_count=INT,
    partitions=_list_of(TRANSACTION_PARTITION),
    start_offset=LONG,
    coordinator_epoch=INT,
    last_written_at=TIME,
)

LOG_DIR: Final = struct(
    log_dir=TEXT,
    error_code=INT,
    total_bytes=LONG,
)
LOG_DIR_SIZE: Final = struct(
    log_dir=TEXT,
    topic=TEXT,
    partition=INT,
    is_future=FLAG,
    size_bytes=LONG,
    offset_lag=LONG,
    replicas=LONG,
    futures=INT,
    changes_left_out=INT,
    usable_bytes=LONG,
    is_whole=FLAG,
)

POLLS: Final = pa.schema(
    [
        pa.field("poll_id", TEXT, nullable=False),
        pa.field("stream", TEXT, nullable=False),
        pa.field("n", LONG, nullable=False),
        pa.field("cluster", TEXT, nullable=False),
        pa.field("record", TEXT, nullable=False),
        pa.field("kind", TEXT),
        pa.field("topic", TEXT),
        pa.field("chunk", INT, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("cluster_id", TEXT),
        pa.field("received_at", TIME),
        pa.field("interval_ms", LONG),
        pa.field("scheduled_at", TIME),
        pa.field("sent_at", TIME),
        pa.field("latency_ms", pa.float64()),
        pa.field("asked_at", TIME),
        pa.field("answered_at", TIME),
        pa.field("outcome", TEXT),
        pa.field("error_kind", TEXT),
        pa.field("error", TEXT),
        pa.field("attempts", INT),
        pa.field("broker_id", INT),
        pa.field("broker", TEXT),
        pa.field("api_version", INT),
        pa.field("response_bytes", LONG),
        pa.field("throttle_time_ms", INT),
        pa.field("metadata_version_level", INT),
        pa.field("metadata_version_highest", INT),
        pa.field("elr_version_level", INT),
        pa.field("controller_id", INT),
        pa.field("active_controller_id", INT),
        pa.field("witnesses", _list_of(_WITNESS)),
        pa.field("topic_filter", TEXT),
        pa.field("groups_pattern", TEXT),
        pa.field("is_key_frame", FLAG),
        pa.field("topic_count", INT),
        pa.field("brokers", _list_of(BROKER)),
        pa.field("partition_count", INT),
        pa.field("present", FLAG),
        pa.field("topic_id", TEXT),
        pa.field("error_code", INT),
        pa.field("is_internal", FLAG),
        pa.field("digest", BYTES),
        pa.field("digest_version", INT),
        pa.field("partitions", _list_of(PARTITION)),
        # Each of these is the column of one kind of enrichment, by whose name its rows are called
        # too.
        pa.field("configs", pa.map_(TEXT, pa.struct([("value", TEXT), ("source", TEXT)]))),
        pa.field("reassignments", _list_of(_REASSIGNMENT)),
        pa.field("quorum", _QUORUM),
        pa.field("quorum_replicas", _list_of(QUORUM_REPLICA)),
        pa.field("elr", _list_of(_ELR)),
        pa.field("fenced", _list_of(BROKER)),
        pa.field("groups", _list_of(_GROUP)),
        pa.field("offsets", OFFSETS),
        pa.field("transactions", _list_of(TRANSACTION)),
        pa.field("log_dirs", _list_of(LOG_DIR)),
        pa.field("log_dir_sizes", _list_of(LOG_DIR_SIZE)),
    ]
)
