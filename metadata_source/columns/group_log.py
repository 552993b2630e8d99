"""Columns of `bronze.group_log`."""

from typing import Final

import pyarrow as pa

from metadata_source.columns import BYTES, FLAG, INT, INTS, LONG, TEXT, TEXTS, TIME, struct

_PARTITIONS = pa.list_(pa.struct([("topic", TEXT), ("partitions", pa.list_(INT))]))

#: A ``ConsumerProtocolSubscription``.
SUBSCRIPTIONS = struct(
    version=INT,
    topics=pa.list_(TEXT),
    user_data=BYTES,
    owned_partitions=_PARTITIONS,
    generation=INT,
    rack=TEXT,
)

#: A ``ConsumerProtocolAssignment``.
ASSIGNMENTS = pa.struct([("version", INT), ("partitions", _PARTITIONS), ("user_data", BYTES)])

_KEY_VALUES = pa.list_(struct(key=TEXT, value=TEXT))

_BY_ID = pa.list_(struct(topic_id=TEXT, partitions=INTS))
OWNED = pa.list_(struct(topic_id=TEXT, partitions=INTS, assignment_epochs=INTS))
_TASKS = pa.list_(struct(subtopology_id=TEXT, partitions=INTS))
TASKS_OWNED = pa.list_(struct(subtopology_id=TEXT, partitions=INTS, assignment_epochs=INTS))

CLASSIC_MEMBER = struct(
    member_id=TEXT,
    instance_id=TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=INT,
    session_timeout_ms=INT,
    subscription=SUBSCRIPTIONS,
    assignment=ASSIGNMENTS,
    subscription_bytes=BYTES,
    assignment_bytes=BYTES,
)
CLASSIC_PROTOCOL = struct(name=TEXT, subscription=SUBSCRIPTIONS, metadata_bytes=BYTES)
TOPIC_METADATA = struct(
    topic_id=TEXT, topic=TEXT, partitions=INT, racks=pa.list_(struct(partition=INT, racks=TEXTS))
)
SHARE_TOPICS = pa.list_(struct(topic_id=TEXT, topic=TEXT, partitions=INTS))
TOPOLOGY_TOPICS = pa.list_(
    struct(name=TEXT, partitions=INT, replication_factor=INT, configs=_KEY_VALUES)
)
_COPARTITION_GROUP = struct(
    source_topics=INTS, source_topic_regex=INTS, repartition_source_topics=INTS
)
SUBTOPOLOGY = struct(
    subtopology_id=TEXT,
    source_topics=TEXTS,
    source_topic_regex=TEXTS,
    state_changelog_topics=TOPOLOGY_TOPICS,
    repartition_sink_topics=TEXTS,
    repartition_source_topics=TOPOLOGY_TOPICS,
    copartition_groups=pa.list_(_COPARTITION_GROUP),
)

#: The columns that a record's key and value tell.
RECORDS: pa.Schema = pa.schema(
    [
        ("type", INT),
        ("version", INT),
        ("group_id", TEXT),
        ("member_id", TEXT),
        ("is_tombstone", FLAG),
        ("error", TEXT),
        ("key", BYTES),
        ("value", BYTES),
        (
            "classic",
            struct(
                protocol_type=TEXT,
                generation=INT,
                protocol=TEXT,
                leader=TEXT,
                state_timestamp=TIME,
                members=pa.list_(CLASSIC_MEMBER),
            ),
        ),
        (
            "group_epoch",
            struct(
                epoch=INT,
                metadata_hash=LONG,
                validated_topology_epoch=INT,
                last_assignment_configs=_KEY_VALUES,
                stored_description_topology_epoch=INT,
                failed_description_topology_epoch=INT,
            ),
        ),
        ("partition_metadata", pa.list_(TOPIC_METADATA)),
        (
            "member",
            struct(
                instance_id=TEXT,
                rack=TEXT,
                client_id=TEXT,
                client_host=TEXT,
                topics=TEXTS,
                regex=TEXT,
                rebalance_timeout_ms=INT,
                assignor=TEXT,
                session_timeout_ms=INT,
                protocols=pa.list_(CLASSIC_PROTOCOL),
                topology_epoch=INT,
                process_id=TEXT,
                user_endpoint=struct(host=TEXT, port=INT),
                client_tags=_KEY_VALUES,
            ),
        ),
        ("target_epoch", struct(epoch=INT, assigned_at=TIME)),
        (
            "target",
            struct(
                partitions=_BY_ID, active_tasks=_TASKS, standby_tasks=_TASKS, warmup_tasks=_TASKS
            ),
        ),
        (
            "current",
            struct(
                epoch=INT,
                prev_epoch=INT,
                state=INT,
                assigned=OWNED,
                pending_revocation=OWNED,
                active_tasks=TASKS_OWNED,
                standby_tasks=TASKS_OWNED,
                warmup_tasks=TASKS_OWNED,
                active_tasks_pending_revocation=TASKS_OWNED,
                standby_tasks_pending_revocation=TASKS_OWNED,
                warmup_tasks_pending_revocation=TASKS_OWNED,
            ),
        ),
        (
            "regular_expression",
            struct(regex=TEXT, topics=TEXTS, metadata_version=LONG, resolved_at=TIME),
        ),
        (
            "share_state",
            struct(
                initializing=SHARE_TOPICS,
                initialized=SHARE_TOPICS,
                deleting=pa.list_(struct(topic_id=TEXT, topic=TEXT)),
            ),
        ),
        ("topology", struct(epoch=INT, subtopologies=pa.list_(SUBTOPOLOGY))),
    ]
)

ENTRY: Final = struct(
    topic=TEXT,
    partition=INT,
    topic_id=TEXT,
    commits=LONG,
    from_offset=LONG,
    from_timestamp=TIME,
    first_committed=LONG,
    to_offset=LONG,
    to_timestamp=TIME,
    last_committed=LONG,
    gap_from=TIME,
    gap_to=TIME,
    falls=LONG,
    fallen=LONG,
    removed_offset=LONG,
    removed_timestamp=TIME,
)
ROWS: Final = pa.schema(
    [
        ("record", TEXT),
        ("log_partition", INT),
        ("offset", LONG),
        ("next_offset", LONG),
        ("timestamp", TIME),
        ("group_id", TEXT),
        ("producer_id", LONG),
        ("is_committed", FLAG),
        ("chunk", INT),
        ("offset_commits", pa.list_(ENTRY)),
    ]
)
"""Columns of bronze.group_log that rows `commits` and `marker` have."""

SCHEMA: Final = pa.schema(
    [
        pa.field("cluster", TEXT, nullable=False),
        pa.field("log_partition", INT, nullable=False),
        pa.field("offset", LONG, nullable=False),
        pa.field("record", TEXT, nullable=False),
        pa.field("cluster_id", TEXT),
        pa.field("read_at", TIME, nullable=False),
        pa.field("day", pa.date32(), nullable=False),
        pa.field("next_offset", LONG),
        pa.field("commits", LONG),
        pa.field("records", LONG),
        pa.field("holes", LONG),
        pa.field("timestamp", TIME),
        pa.field("leader_epoch", INT),
        *RECORDS,
        *(
            field
            for field in ROWS
            if field.name in {"producer_id", "is_committed", "chunk", "offset_commits"}
        ),
    ]
)
