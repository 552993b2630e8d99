"""Records that controllers write to ``__cluster_metadata``, and those that the quorum writes there
for itself, as tables.

They follow Kafka's definitions (``metadata/src/main/resources/common/metadata/*Record.json``,
``clients/src/main/resources/common/message/*Record.json`` and ``LeaderChangeMessage.json``).

Records that are only counted, or have no fields, have no table, so that nothing can decode them.
"""

from __future__ import annotations

from metadata_source.protocol.spec import Array, Field, Message, Primitive, Struct, structs

_BOOL, _INT8, _INT16, _UINT16 = Primitive.BOOL, Primitive.INT8, Primitive.INT16, Primitive.UINT16
_INT32, _INT64, _STRING, _UUID = Primitive.INT32, Primitive.INT64, Primitive.STRING, Primitive.UUID
_INT32S, _UUIDS = Array(_INT32), Array(_UUID)


def _record(name: str, number: int, *fields: Field, last_version: int = 0) -> Message:
    return Message(name, number, last_version, flexible_since=0, body=Struct(fields))


def _tagged(
    tag: int, name: str, type_: Primitive | Array, default: int | list[int] | None, since: int = 0
) -> Field:
    nullable = since if default is None else None
    return Field(name, type_, since=since, nullable=nullable, tag=tag, default=default)


def _by_type(*records: Message) -> dict[int, Message]:
    return {each.api_key: each for each in records}


_BROKER_EPOCH = (Field("broker_id", _INT32), Field("broker_epoch", _INT64))
_FENCING = (Field("id", _INT32), Field("epoch", _INT64))
_END_POINTS = structs(
    Field("name", _STRING),
    Field("host", _STRING),
    Field("port", _UINT16),
    Field("security_protocol", _INT16),
)
_FEATURES = structs(
    Field("name", _STRING),
    Field("min_supported_version", _INT16),
    Field("max_supported_version", _INT16),
)
_VOTERS = structs(Field("voter_id", _INT32), Field("voter_directory_id", _UUID, since=1))

#: Records of controllers that are decoded, by type.
RECORD_TYPES = _by_type(
    _record(
        "RegisterBrokerRecord",
        0,
        Field("broker_id", _INT32),
        Field("is_migrating_zk_broker", _BOOL, since=2),
        Field("incarnation_id", _UUID),
        Field("broker_epoch", _INT64),
        Field("end_points", _END_POINTS),
        Field("features", _FEATURES),
        Field("rack", _STRING, nullable=0),
        Field("fenced", _BOOL),
        Field("in_controlled_shutdown", _BOOL, since=1),
        _tagged(0, "log_dirs", _UUIDS, [], since=3),
        _tagged(1, "cordoned_log_dirs", _UUIDS, None, since=4),
        last_version=4,
    ),
    _record("UnregisterBrokerRecord", 1, *_BROKER_EPOCH),
    _record("TopicRecord", 2, Field("name", _STRING), Field("topic_id", _UUID)),
    _record(
        "PartitionRecord",
        3,
        Field("partition_id", _INT32),
        Field("topic_id", _UUID),
        Field("replicas", _INT32S),
        Field("isr", _INT32S),
        Field("removing_replicas", _INT32S),
        Field("adding_replicas", _INT32S),
        Field("leader", _INT32),
        Field("leader_epoch", _INT32),
        Field("partition_epoch", _INT32),
        Field("directories", _UUIDS, since=1),
        _tagged(0, "leader_recovery_state", _INT8, 0),
        _tagged(1, "eligible_leader_replicas", _INT32S, None, since=2),
        _tagged(2, "last_known_elr", _INT32S, None, since=2),
        last_version=2,
    ),
    _record(
        "ConfigRecord",
        4,
        Field("resource_type", _INT8),
        Field("resource_name", _STRING),
        Field("name", _STRING),
        Field("value", _STRING, nullable=0),
    ),
    _record(
        "PartitionChangeRecord",
        5,
        Field("partition_id", _INT32),
        Field("topic_id", _UUID),
        _tagged(0, "isr", _INT32S, None),
        _tagged(1, "leader", _INT32, -2),
        _tagged(2, "replicas", _INT32S, None),
        _tagged(3, "removing_replicas", _INT32S, None),
        _tagged(4, "adding_replicas", _INT32S, None),
        _tagged(5, "leader_recovery_state", _INT8, -1),
        _tagged(6, "eligible_leader_replicas", _INT32S, None, since=2),
        _tagged(7, "last_known_elr", _INT32S, None, since=2),
        _tagged(8, "directories", _UUIDS, None, since=1),
        last_version=2,
    ),
    _record("FenceBrokerRecord", 7, *_FENCING),
    _record("UnfenceBrokerRecord", 8, *_FENCING),
    _record("RemoveTopicRecord", 9, Field("topic_id", _UUID)),
    _record("FeatureLevelRecord", 12, Field("name", _STRING), Field("feature_level", _INT16)),
    _record("ProducerIdsRecord", 15, *_BROKER_EPOCH, Field("next_producer_id", _INT64)),
    _record(
        "BrokerRegistrationChangeRecord",
        17,
        *_BROKER_EPOCH,
        _tagged(0, "fenced", _INT8, 0),
        _tagged(1, "in_controlled_shutdown", _INT8, 0, since=1),
        _tagged(2, "log_dirs", _UUIDS, [], since=2),
        _tagged(3, "cordoned_log_dirs", _UUIDS, None, since=3),
        last_version=3,
    ),
    _record("NoOpRecord", 20),
    _record("ZkMigrationStateRecord", 21, Field("zk_migration_state", _INT8)),
    _record("BeginTransactionRecord", 23, Field("name", _STRING, nullable=0, tag=0)),
    _record("EndTransactionRecord", 24),
    _record("AbortTransactionRecord", 25, Field("reason", _STRING, nullable=0, tag=0)),
    _record(
        "RegisterControllerRecord",
        27,
        Field("controller_id", _INT32),
        Field("incarnation_id", _UUID),
        Field("zk_migration_ready", _BOOL),
        Field("end_points", _END_POINTS),
        Field("features", _FEATURES),
    ),
    _record("ClearElrRecord", 28, Field("topic_name", _STRING)),
    _record("UnregisterControllerRecord", 29, Field("controller_id", _INT32)),
)


#: Records of controllers that are counted, by type: they hold secrets.
COUNTED = {
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    22: "RemoveUserScramCredentialRecord",
    26: "RemoveDelegationTokenRecord",
}

#: Records of controllers of which a row says that they were written, and nothing else, by type.
#: They name principals, hosts and clients. Those of a snapshot are counted.
WITHOUT_FIELDS = {
    14: "ClientQuotaRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
}

#: Control records of the quorum, by type; a value begins with its version.
CONTROL_TYPES = _by_type(
    _record(
        "LeaderChangeMessage",
        2,
        Field("version", _INT16),
        Field("leader_id", _INT32),
        Field("voters", _VOTERS),
        Field("granting_voters", _VOTERS),
        last_version=1,
    ),
    _record(
        "SnapshotHeaderRecord",
        3,
        Field("version", _INT16),
        Field("last_contained_log_timestamp", _INT64),
    ),
    _record("SnapshotFooterRecord", 4, Field("version", _INT16)),
    _record("KRaftVersionRecord", 5, Field("version", _INT16), Field("kraft_version", _INT16)),
    _record(
        "VotersRecord",
        6,
        Field("version", _INT16),
        Field(
            "voters",
            Array(
                Struct(
                    (
                        Field("voter_id", _INT32),
                        Field("voter_directory_id", _UUID),
                        Field(
                            "endpoints",
                            Array(
                                Struct(
                                    (
                                        Field("name", _STRING),
                                        Field("host", _STRING),
                                        Field("port", _UINT16),
                                    )
                                )
                            ),
                        ),
                        Field(
                            "kraft_version_feature",
                            Struct(
                                (
                                    Field("min_supported_version", _INT16),
                                    Field("max_supported_version", _INT16),
                                )
                            ),
                        ),
                    )
                )
            ),
        ),
    ),
)
