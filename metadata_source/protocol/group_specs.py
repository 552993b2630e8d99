"""Records that group coordinators write to ``__consumer_offsets``, as tables: keys and values by
record type.

They follow Kafka's definitions (``group-coordinator/src/main/resources/common/message/*Key.json``
and ``*Value.json``), and for what classic members put in there themselves those of the consumer
protocol (``clients/.../message/ConsumerProtocol*.json``). Where a tagged field is absent, Kafka
takes the default of its type, an empty array or a struct of defaults, even if null is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct

_INT8, _INT16, _UINT16, _INT32, _INT64 = (
    Primitive.INT8,
    Primitive.INT16,
    Primitive.UINT16,
    Primitive.INT32,
    Primitive.INT64,
)
_STRING, _BYTES, _UUID = Primitive.STRING, Primitive.BYTES, Primitive.UUID
_INT32S, _STRINGS = Array(_INT32), Array(_STRING)


@dataclass(frozen=True, slots=True)
class RecordType:
    """One type of record. The key's first two bytes are the type; the value's are the version,
    which a key does not have.
    """

    key: Message
    value: Message


def _record_type(
    number: int,
    name: str,
    value: tuple[Field, ...],
    *,
    key: tuple[str, ...] = ("group_id", "member_id"),
    last_version: int = 0,
    flexible_since: int = 0,
) -> RecordType:
    fields = tuple(Field(each, _STRING) for each in key)
    return RecordType(
        key=Message(f"{name}Key", number, last_version=0, flexible_since=None, body=Struct(fields)),
        value=Message(f"{name}Value", number, last_version, flexible_since, Struct(value)),
    )


_MEMBER = Struct(
    (
        Field("member_id", _STRING),
        Field("group_instance_id", _STRING, since=3, nullable=3),
        Field("client_id", _STRING),
        Field("client_host", _STRING),
        Field("rebalance_timeout", _INT32, since=1),
        Field("session_timeout", _INT32),
        Field("subscription", _BYTES),
        Field("assignment", _BYTES),
    )
)


def _group(member: Struct) -> tuple[Field, ...]:
    return (
        Field("protocol_type", _STRING),
        Field("generation", _INT32),
        Field("protocol", _STRING, nullable=0),
        Field("leader", _STRING, nullable=0),
        Field("current_state_timestamp", _INT64, since=2),
        Field("members", Array(member)),
    )


_PARTITIONS = Struct((Field("topic_id", _UUID), Field("partitions", _INT32S)))
_TASKS = Struct((Field("subtopology_id", _STRING), Field("partitions", _INT32S)))
_ASSIGNMENT_EPOCHS = Field("assignment_epochs", _INT32S, nullable=0, tag=0, default=[])
_OWNED_PARTITIONS = Struct((*_PARTITIONS.fields, _ASSIGNMENT_EPOCHS))
_OWNED_TASKS = Struct((*_TASKS.fields, _ASSIGNMENT_EPOCHS))
_KEY_VALUE = Struct((Field("key", _STRING), Field("value", _STRING)))

_TARGET_EPOCH = (
    Field("assignment_epoch", _INT32),
    Field("assignment_timestamp", _INT64, tag=0, default=0),
)
_TARGET_PARTITIONS = (Field("topic_partitions", Array(_PARTITIONS)),)
_MEMBER_STATE = (
    Field("member_epoch", _INT32),
    Field("previous_member_epoch", _INT32),
    Field("state", _INT8),
)

_CLASSIC_MEMBER_METADATA = Struct(
    (
        Field("session_timeout_ms", _INT32),
        Field(
            "supported_protocols",
            Array(Struct((Field("name", _STRING), Field("metadata", _BYTES)))),
        ),
    )
)
_CONSUMER_MEMBER = (
    Field("instance_id", _STRING, nullable=0),
    Field("rack_id", _STRING, nullable=0),
    Field("client_id", _STRING),
    Field("client_host", _STRING),
    Field("subscribed_topic_names", _STRINGS),
    Field("subscribed_topic_regex", _STRING, nullable=0),
    Field("rebalance_timeout_ms", _INT32),
    Field("server_assignor", _STRING, nullable=0),
    Field(
        "classic_member_metadata",
        _CLASSIC_MEMBER_METADATA,
        nullable=0,
        tag=0,
        default={"session_timeout_ms": 0, "supported_protocols": []},
    ),
)
_PARTITION_METADATA = Struct(
    (
        Field("topic_id", _UUID),
        Field("topic_name", _STRING),
        Field("num_partitions", _INT32),
        Field(
            "partition_metadata",
            Array(Struct((Field("partition", _INT32), Field("racks", _STRINGS)))),
        ),
    )
)

_SHARE_MEMBER = (
    Field("rack_id", _STRING, nullable=0),
    Field("client_id", _STRING),
    Field("client_host", _STRING),
    Field("subscribed_topic_names", _STRINGS),
)
_SHARE_TOPIC = (Field("topic_id", _UUID), Field("topic_name", _STRING))
_SHARE_TOPICS = Array(Struct((*_SHARE_TOPIC, Field("partitions", _INT32S))))

_STREAMS_GROUP = (
    Field("epoch", _INT32),
    Field("metadata_hash", _INT64),
    Field("validated_topology_epoch", _INT32, tag=0, default=-1),
    Field("last_assignment_configs", Array(_KEY_VALUE), nullable=0, tag=1, default=[]),
    Field("stored_description_topology_epoch", _INT32, tag=2, default=-1),
    Field("failed_description_topology_epoch", _INT32, tag=3, default=-1),
)
_STREAMS_MEMBER = (
    Field("instance_id", _STRING, nullable=0),
    Field("rack_id", _STRING, nullable=0),
    Field("client_id", _STRING),
    Field("client_host", _STRING),
    Field("rebalance_timeout_ms", _INT32),
    Field("topology_epoch", _INT32),
    Field("process_id", _STRING),
    Field("user_endpoint", Struct((Field("host", _STRING), Field("port", _UINT16))), nullable=0),
    Field("client_tags", Array(_KEY_VALUE)),
)
_TOPIC_INFO = Array(
    Struct(
        (
            Field("name", _STRING),
            Field("partitions", _INT32),
            Field("replication_factor", _INT16),
            Field("topic_configs", Array(_KEY_VALUE)),
        )
    )
)
_COPARTITION_GROUP = Struct(
    (
        Field("source_topics", Array(_INT16)),
        Field("source_topic_regex", Array(_INT16)),
        Field("repartition_source_topics", Array(_INT16)),
    )
)
_SUBTOPOLOGY = Struct(
    (
        Field("subtopology_id", _STRING),
        Field("source_topics", _STRINGS),
        Field("source_topic_regex", _STRINGS),
        Field("state_changelog_topics", _TOPIC_INFO),
        Field("repartition_sink_topics", _STRINGS),
        Field("repartition_source_topics", _TOPIC_INFO),
        Field("copartition_groups", Array(_COPARTITION_GROUP)),
    )
)
_RESOLVED_TOPICS = Struct((Field("subtopology_id", _STRING), Field("topic_ids", Array(_UUID))))

_OF_GROUP = ("group_id",)

COMMIT_TYPES = (0, 1)
"""Types of offset commits, of one key. Kafka calls the first ``LegacyOffsetCommit``."""
OFFSET_COMMIT = RecordType(
    key=Message(
        "OffsetCommitKey",
        1,
        last_version=0,
        flexible_since=None,
        body=Struct((Field("group", _STRING), Field("topic", _STRING), Field("partition", _INT32))),
    ),
    value=Message(
        "OffsetCommitValue",
        1,
        last_version=4,
        flexible_since=4,
        body=Struct(
            (
                Field("offset", _INT64),
                Field("leader_epoch", _INT32, since=3),
                Field("metadata", _STRING),
                Field("commit_timestamp", _INT64),
                Field("expire_timestamp", _INT64, since=1, until=1),
                Field("topic_id", _UUID, since=4, tag=0, default=bytes(16)),
            )
        ),
    ),
)
#: A classic group as Redpanda writes it, in version 3: before each member is the version of its
#: fields, which is the group's (``member_state::encode`` of src/v/kafka/server/group_metadata.cc).
REDPANDA_GROUP = Message(
    name="GroupMetadataValue",
    api_key=2,
    last_version=3,
    flexible_since=None,
    body=Struct(_group(Struct((Field("version", _INT16), *_MEMBER.fields)))),
)

# By the number of the type, those of offset commits left out. Missing are 9 and 18, which Kafka 4.3
# no longer has.
RECORD_TYPES: dict[int, RecordType] = {
    each.key.api_key: each
    for each in (
        _record_type(
            2, "GroupMetadata", _group(_MEMBER), key=("group",), last_version=4, flexible_since=4
        ),
        _record_type(
            3,
            "ConsumerGroupMetadata",
            (Field("epoch", _INT32), Field("metadata_hash", _INT64, tag=0, default=0)),
            key=_OF_GROUP,
        ),
        _record_type(
            4,
            "ConsumerGroupPartitionMetadata",
            (Field("topics", Array(_PARTITION_METADATA)),),
            key=_OF_GROUP,
        ),
        _record_type(5, "ConsumerGroupMemberMetadata", _CONSUMER_MEMBER),
        _record_type(6, "ConsumerGroupTargetAssignmentMetadata", _TARGET_EPOCH, key=_OF_GROUP),
        _record_type(7, "ConsumerGroupTargetAssignmentMember", _TARGET_PARTITIONS),
        _record_type(
            8,
            "ConsumerGroupCurrentMemberAssignment",
            (
                *_MEMBER_STATE,
                Field("assigned_partitions", Array(_OWNED_PARTITIONS)),
                Field("partitions_pending_revocation", Array(_OWNED_PARTITIONS)),
            ),
        ),
        _record_type(10, "ShareGroupMemberMetadata", _SHARE_MEMBER),
        _record_type(
            11,
            "ShareGroupMetadata",
            (Field("epoch", _INT32), Field("metadata_hash", _INT64)),
            key=_OF_GROUP,
        ),
        _record_type(12, "ShareGroupTargetAssignmentMetadata", _TARGET_EPOCH, key=_OF_GROUP),
        _record_type(13, "ShareGroupTargetAssignmentMember", _TARGET_PARTITIONS),
        _record_type(
            14,
            "ShareGroupCurrentMemberAssignment",
            (*_MEMBER_STATE, Field("assigned_partitions", Array(_PARTITIONS))),
        ),
        _record_type(
            15,
            "ShareGroupStatePartitionMetadata",
            (
                Field("initializing_topics", _SHARE_TOPICS),
                Field("initialized_topics", _SHARE_TOPICS),
                Field("deleting_topics", Array(Struct(_SHARE_TOPIC))),
            ),
            key=_OF_GROUP,
        ),
        _record_type(
            16,
            "ConsumerGroupRegularExpression",
            (Field("topics", _STRINGS), Field("version", _INT64), Field("timestamp", _INT64)),
            key=("group_id", "regular_expression"),
        ),
        _record_type(17, "StreamsGroupMetadata", _STREAMS_GROUP, key=_OF_GROUP),
        _record_type(19, "StreamsGroupMemberMetadata", _STREAMS_MEMBER),
        _record_type(20, "StreamsGroupTargetAssignmentMetadata", _TARGET_EPOCH, key=_OF_GROUP),
        _record_type(
            21,
            "StreamsGroupTargetAssignmentMember",
            tuple(
                Field(each, Array(_TASKS))
                for each in ("active_tasks", "standby_tasks", "warmup_tasks")
            ),
        ),
        _record_type(
            22,
            "StreamsGroupCurrentMemberAssignment",
            (
                *_MEMBER_STATE,
                *(
                    Field(f"{each}_tasks{pending}", Array(_OWNED_TASKS))
                    for pending in ("", "_pending_revocation")
                    for each in ("active", "standby", "warmup")
                ),
            ),
        ),
        _record_type(
            23,
            "StreamsGroupTopology",
            (Field("epoch", _INT32), Field("subtopologies", Array(_SUBTOPOLOGY))),
            key=_OF_GROUP,
        ),
        # After Kafka 4.4, as in the trunk of November 2026.
        _record_type(
            24,
            "StreamsGroupTargetAssignmentResolvedTopicIds",
            (
                Field("assignment_epoch", _INT32),
                Field("resolved_topic_ids_by_subtopology", Array(_RESOLVED_TOPICS)),
            ),
            key=_OF_GROUP,
        ),
    )
}

_TOPIC_PARTITIONS = Array(Struct((Field("topic", _STRING), Field("partitions", _INT32S))))

#: What consumers of a classic group say when they join. The version stands before it.
SUBSCRIPTION = Message(
    name="ConsumerProtocolSubscription",
    api_key=-1,
    last_version=3,
    flexible_since=None,
    body=Struct(
        (
            Field("topics", _STRINGS),
            Field("user_data", _BYTES, nullable=0),
            Field("owned_partitions", _TOPIC_PARTITIONS, since=1),
            Field("generation_id", _INT32, since=2),
            Field("rack_id", _STRING, since=3, nullable=3),
        )
    ),
)

#: What their leader assigns to each of them. The version stands before it.
ASSIGNMENT = Message(
    name="ConsumerProtocolAssignment",
    api_key=-1,
    last_version=3,
    flexible_since=None,
    body=Struct(
        (Field("assigned_partitions", _TOPIC_PARTITIONS), Field("user_data", _BYTES, nullable=0))
    ),
)
