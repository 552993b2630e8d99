"""Requests to coordinators about groups, and the responses, as tables: the list, and each group by its type's request.

They follow Kafka's definitions (``clients/src/main/resources/common/message/*Groups*.json`` and
``*GroupDescribe*.json``).
"""

from __future__ import annotations

from metadata_source.protocol.spec import Array, Field, Primitive, Struct, api, structs

_INT8, _INT16, _INT32, _INT64 = Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64
_BOOL, _STRING, _BYTES, _UUID = Primitive.BOOL, Primitive.STRING, Primitive.BYTES, Primitive.UUID
_INT32S, _STRINGS = Array(_INT32), Array(_STRING)


def _nullable(name: str, kind: Primitive | Array | Struct = _STRING, since: int = 0) -> Field:
    return Field(name, kind, since=since, nullable=since)


_THROTTLE = Field("throttle_time_ms", _INT32)
_AUTHORIZED_OPERATIONS = Field("authorized_operations", _INT32)
_KEY_VALUES = structs(Field("key", _STRING), Field("value", _STRING))
_DESCRIBE = (Field("group_ids", _STRINGS), Field("include_authorized_operations", _BOOL))

LIST_GROUPS = api(
    "ListGroups",
    16,
    last_version=5,
    flexible_since=3,
    request=(Field("states_filter", _STRINGS, since=4), Field("types_filter", _STRINGS, since=5)),
    response=(
        Field("throttle_time_ms", _INT32, since=1),
        Field("error_code", _INT16),
        Field(
            "groups",
            structs(
                Field("group_id", _STRING),
                Field("protocol_type", _STRING),
                Field("group_state", _STRING, since=4),
                Field("group_type", _STRING, since=5),
            ),
        ),
    ),
)

DESCRIBE_GROUPS = api(
    "DescribeGroups",
    15,
    last_version=6,
    flexible_since=5,
    request=(Field("groups", _STRINGS), Field("include_authorized_operations", _BOOL, since=3)),
    response=(
        Field("throttle_time_ms", _INT32, since=1),
        Field(
            "groups",
            structs(
                Field("error_code", _INT16),
                _nullable("error_message", since=6),
                Field("group_id", _STRING),
                Field("group_state", _STRING),
                Field("protocol_type", _STRING),
                Field("protocol_data", _STRING),
                Field(
                    "members",
                    structs(
                        Field("member_id", _STRING),
                        _nullable("group_instance_id", since=4),
                        Field("client_id", _STRING),
                        Field("client_host", _STRING),
                        Field("member_metadata", _BYTES),
                        Field("member_assignment", _BYTES),
                    ),
                ),
                Field("authorized_operations", _INT32, since=3),
            ),
        ),
    ),
)

_ASSIGNMENT = Struct(
    (
        Field(
            "topic_partitions",
            structs(Field("topic_id", _UUID), Field("topic_name", _STRING), Field("partitions", _INT32S)),
        ),
    )
)

CONSUMER_GROUP_DESCRIBE = api(
    "ConsumerGroupDescribe",
    69,
    last_version=1,
    flexible_since=0,
    request=_DESCRIBE,
    response=(
        _THROTTLE,
        Field(
            "groups",
            structs(
                Field("error_code", _INT16),
                _nullable("error_message"),
                Field("group_id", _STRING),
                Field("group_state", _STRING),
                Field("group_epoch", _INT32),
                Field("assignment_epoch", _INT32),
                Field("assignor_name", _STRING),
                Field(
                    "members",
                    structs(
                        Field("member_id", _STRING),
                        _nullable("instance_id"),
                        _nullable("rack_id"),
                        Field("member_epoch", _INT32),
                        Field("client_id", _STRING),
                        Field("client_host", _STRING),
                        Field("subscribed_topic_names", _STRINGS),
                        _nullable("subscribed_topic_regex"),
                        Field("assignment", _ASSIGNMENT),
                        Field("target_assignment", _ASSIGNMENT),
                        Field("member_type", _INT8, since=1),
                    ),
                ),
                _AUTHORIZED_OPERATIONS,
            ),
        ),
    ),
)

SHARE_GROUP_DESCRIBE = api(
    "ShareGroupDescribe",
    77,
    last_version=1,
    flexible_since=0,
    request=_DESCRIBE,
    response=(
        _THROTTLE,
        Field(
            "groups",
            structs(
                Field("error_code", _INT16),
                _nullable("error_message"),
                Field("group_id", _STRING),
                Field("group_state", _STRING),
                Field("group_epoch", _INT32),
                Field("assignment_epoch", _INT32),
                Field("assignor_name", _STRING),
                Field(
                    "members",
                    structs(
                        Field("member_id", _STRING),
                        _nullable("rack_id"),
                        Field("member_epoch", _INT32),
                        Field("client_id", _STRING),
                        Field("client_host", _STRING),
                        Field("subscribed_topic_names", _STRINGS),
                        Field("assignment", _ASSIGNMENT),
                    ),
                ),
                _AUTHORIZED_OPERATIONS,
            ),
        ),
    ),
    # Version 0 was early access (Kafka 4.0), and is gone.
    lowest=1,
)

_TASK_IDS = structs(Field("subtopology_id", _STRING), Field("partitions", _INT32S))
_TASKS = Struct((Field("active_tasks", _TASK_IDS), Field("standby_tasks", _TASK_IDS), Field("warmup_tasks", _TASK_IDS)))
_TASK_OFFSETS = structs(Field("subtopology_id", _STRING), Field("partition", _INT32), Field("offset", _INT64))
_TOPIC_INFOS = structs(
    Field("name", _STRING),
    Field("partitions", _INT32),
    Field("replication_factor", _INT16),
    Field("topic_configs", _KEY_VALUES),
)
_TOPOLOGY = Struct(
    (
        Field("epoch", _INT32),
        _nullable(
            "subtopologies",
            structs(
                Field("subtopology_id", _STRING),
                Field("source_topics", _STRINGS),
                Field("repartition_sink_topics", _STRINGS),
                Field("state_changelog_topics", _TOPIC_INFOS),
                Field("repartition_source_topics", _TOPIC_INFOS),
            ),
        ),
    )
)
_TOPOLOGY_NODE = Struct(
    (
        Field("name", _STRING),
        Field("node_type", _INT8),
        Field("source_topics", _STRINGS),
        _nullable("sink_topic"),
        Field("stores", _STRINGS),
        Field("successors", _STRINGS),
    )
)
_TOPOLOGY_DESCRIPTION = Struct(
    (
        Field("subtopologies", structs(Field("subtopology_id", _STRING), Field("nodes", Array(_TOPOLOGY_NODE)))),
        Field("global_stores", structs(Field("source", _TOPOLOGY_NODE), Field("processor", _TOPOLOGY_NODE))),
    )
)

STREAMS_GROUP_DESCRIBE = api(
    "StreamsGroupDescribe",
    89,
    last_version=1,
    flexible_since=0,
    request=(*_DESCRIBE, Field("include_topology_description", _BOOL, since=1)),
    response=(
        _THROTTLE,
        Field(
            "groups",
            structs(
                Field("error_code", _INT16),
                _nullable("error_message"),
                Field("group_id", _STRING),
                Field("group_state", _STRING),
                Field("group_epoch", _INT32),
                Field("assignment_epoch", _INT32),
                _nullable("topology", _TOPOLOGY),
                Field(
                    "members",
                    structs(
                        Field("member_id", _STRING),
                        Field("member_epoch", _INT32),
                        _nullable("instance_id"),
                        _nullable("rack_id"),
                        Field("client_id", _STRING),
                        Field("client_host", _STRING),
                        Field("topology_epoch", _INT32),
                        Field("process_id", _STRING),
                        _nullable("user_endpoint", Struct((Field("host", _STRING), Field("port", Primitive.UINT16)))),
                        Field("client_tags", _KEY_VALUES),
                        Field("task_offsets", _TASK_OFFSETS),
                        Field("task_end_offsets", _TASK_OFFSETS),
                        Field("assignment", _TASKS),
                        Field("target_assignment", _TASKS),
                        Field("is_classic", _BOOL),
                    ),
                ),
                _AUTHORIZED_OPERATIONS,
                _nullable("topology_description", _TOPOLOGY_DESCRIPTION, since=1),
                Field("topology_description_status", _INT8, since=1),
                _nullable("assignor_name", since=1),
            ),
        ),
    ),
)
