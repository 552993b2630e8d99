"""Requests for the offsets that groups have committed, and for the ends of logs, and the responses, as tables.

They follow Kafka's definitions (``clients/src/main/resources/common/message/OffsetFetch*.json`` and
``ListOffsets*.json``).
"""

from __future__ import annotations

from metadata_source.protocol.spec import Array, Field, Primitive, api, structs

_INT8, _INT16, _INT32, _INT64 = Primitive.INT8, Primitive.INT16, Primitive.INT32, Primitive.INT64
_STRING = Primitive.STRING
_LAST_OF_ONE_GROUP = 7
_TOPICS_ASKED = structs(Field("name", _STRING), Field("partition_indexes", Array(_INT32)))
_TOPICS_TOLD = structs(
    Field("name", _STRING),
    Field(
        "partitions",
        structs(
            Field("partition_index", _INT32),
            Field("committed_offset", _INT64),
            Field("committed_leader_epoch", _INT32, since=5),
            Field("metadata", _STRING, nullable=0),
            Field("error_code", _INT16),
        ),
    ),
)
_FIRST_OF_MANY_GROUPS = _LAST_OF_ONE_GROUP + 1

# From version 2 on all topics of a group can be asked for. From version 10 on (Kafka 4.1) topics are named by id: then
# commits of a topic that is gone have no name.
OFFSET_FETCH = api(
    "OffsetFetch",
    9,
    lowest=2,
    last_version=9,
    flexible_since=6,
    request=(
        Field("group_id", _STRING, until=_LAST_OF_ONE_GROUP),
        Field("topics", _TOPICS_ASKED, until=_LAST_OF_ONE_GROUP, nullable=2),
        Field(
            "groups",
            structs(
                Field("group_id", _STRING),
                Field("member_id", _STRING, since=9, nullable=9),
                Field("member_epoch", _INT32, since=9),
                Field("topics", _TOPICS_ASKED, nullable=8),
            ),
            since=_FIRST_OF_MANY_GROUPS,
        ),
        Field("require_stable", Primitive.BOOL, since=7),
    ),
    response=(
        Field("throttle_time_ms", _INT32, since=3),
        Field("topics", _TOPICS_TOLD, until=_LAST_OF_ONE_GROUP),
        Field("error_code", _INT16, until=_LAST_OF_ONE_GROUP),
        Field(
            "groups",
            structs(Field("group_id", _STRING), Field("topics", _TOPICS_TOLD), Field("error_code", _INT16)),
            since=_FIRST_OF_MANY_GROUPS,
        ),
    ),
)

# Version 0 answers lists of offsets.
LIST_OFFSETS = api(
    "ListOffsets",
    2,
    lowest=1,
    last_version=11,
    flexible_since=6,
    request=(
        Field("replica_id", _INT32),
        Field("isolation_level", _INT8, since=2),
        Field(
            "topics",
            structs(
                Field("name", _STRING),
                Field(
                    "partitions",
                    structs(
                        Field("partition_index", _INT32),
                        Field("current_leader_epoch", _INT32, since=4),
                        Field("timestamp", _INT64),
                    ),
                ),
            ),
        ),
        Field("timeout_ms", _INT32, since=10),
    ),
    response=(
        Field("throttle_time_ms", _INT32, since=2),
        Field(
            "topics",
            structs(
                Field("name", _STRING),
                Field(
                    "partitions",
                    structs(
                        Field("partition_index", _INT32),
                        Field("error_code", _INT16),
                        Field("timestamp", _INT64),
                        Field("offset", _INT64),
                        Field("leader_epoch", _INT32, since=4),
                    ),
                ),
            ),
        ),
    ),
)
