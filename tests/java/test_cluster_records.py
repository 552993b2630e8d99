"""Kafka's own Java classes have the fields that the tables have, and what they write decodes to
what went in: records of controllers and of the quorum, and record batches of every codec.
"""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from metadata_source.protocol.cluster_records import decode_records
from metadata_source.protocol.cluster_specs import (
    CONTROL_TYPES,
    COUNTED,
    RECORD_TYPES,
    WITHOUT_FIELDS,
)
from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.kept_configs import BROKER, KEPT_CONFIGS
from metadata_source.protocol.record_batches import read_batches
from metadata_source.protocol.spec import Message
from tests.support import cluster_records
from tests.support.cluster_records import (
    SECRET,
    decoded,
    expected,
    expected_control,
    kept,
    values_of,
)
from tests.support.for_each import for_each
from tests.support.group_messages import without_nulls
from tests.support.kafka_classes import (
    MESSAGES,
    METADATA,
    bytes_of,
    check_schemas,
    java_message,
    named,
    serialized,
)
from tests.support.record_batches import CODECS

BATCH_CLASSES = "org.apache.kafka.common.record.internal"

quickly = settings(
    max_examples=6,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@for_each(("number", "version"), cluster_records.RECORDS)
def test_records_of_kafka_decode_to_what_went_in(jvm: Any, number: int, version: int) -> None:
    message = RECORD_TYPES[number]

    @quickly
    @given(values_of(message, version))
    def check(values: dict[str, Any]) -> None:
        data = serialized(jvm, java_message(jvm, METADATA, message, version, values), version)
        # One is read by the exact reader, many are read side by side.
        for count in (1, FEWEST):
            assert decoded([data] * count) == [expected(number, version, values)] * count

    check()


def test_the_record_types_are_those_of_kafka(jvm: Any) -> None:
    types = named(jvm, f"{METADATA}.MetadataRecordType").values()
    kafka = {
        each.id(): (each.newMetadataRecord().getClass().getSimpleName(), each) for each in types
    }
    assert {number: name for number, (name, _) in kafka.items()} == (
        COUNTED | WITHOUT_FIELDS | {number: each.name for number, each in RECORD_TYPES.items()}
    )
    for number, message in RECORD_TYPES.items():
        record_type = kafka[number][1]
        versions = (record_type.lowestSupportedVersion(), record_type.highestSupportedVersion())
        assert versions == (0, message.last_version)


TABLES = [
    *((METADATA, message) for message in RECORD_TYPES.values()),
    *((MESSAGES, message) for message in CONTROL_TYPES.values()),
]


@for_each(("package", "message"), TABLES)
def test_the_tables_are_the_schemas_of_kafka(jvm: Any, package: str, message: Message) -> None:
    check_schemas(jvm, package, message)


def records_with_secrets(jvm: Any) -> list[tuple[int, Any]]:
    """Records as Kafka writes them, whose every text and every byte that may be one is a secret."""
    secret = bytearray(SECRET.encode())
    token = named(jvm, f"{METADATA}.DelegationTokenRecord")()
    token.setOwner(SECRET).setRequester(SECRET).setRenewers([SECRET]).setTokenId(SECRET)
    user = named(jvm, f"{METADATA}.UserScramCredentialRecord")()
    user.setName(SECRET).setSalt(secret).setStoredKey(secret).setServerKey(secret).setIterations(
        4096
    )
    quota = named(jvm, f"{METADATA}.ClientQuotaRecord")().setKey(SECRET).setValue(1.5)
    acl = named(jvm, f"{METADATA}.AccessControlEntryRecord")()
    acl.setResourceName(SECRET).setPrincipal(SECRET).setHost(SECRET)
    return [
        (10, token),
        (11, user),
        (14, quota),
        (18, acl),
        (19, named(jvm, f"{METADATA}.RemoveAccessControlEntryRecord")()),
        (22, named(jvm, f"{METADATA}.RemoveUserScramCredentialRecord")().setName(SECRET)),
        (26, named(jvm, f"{METADATA}.RemoveDelegationTokenRecord")().setTokenId(SECRET)),
        (4, config(jvm, 4, "ssl.key.password", SECRET)),
        (4, config(jvm, 2, "sasl.jaas.config", SECRET)),
    ]


def config(jvm: Any, kind: int, name: str, value: str) -> Any:
    record = named(jvm, f"{METADATA}.ConfigRecord")()
    return record.setResourceType(kind).setResourceName("r").setName(name).setValue(value)


def test_of_secrets_no_byte_is_kept(jvm: Any) -> None:
    records = records_with_secrets(jvm)
    assert {number for number, _ in records} == {4, *COUNTED, *WITHOUT_FIELDS}
    values = [serialized(jvm, record, 0) for _, record in records]
    for count in (1, FEWEST):
        batch = decode_records(cluster_records.log(values * count))
        assert SECRET.encode() not in kept(batch)
        for (number, _), value, row in zip(records, values, batch.to_pylist(), strict=False):
            told = without_nulls(row)
            assert (told["type"], told["version"], told["size"]) == (number, 0, len(value))
            assert number == 4 or set(told) - {
                "offset",
                "leader_epoch",
                "timestamp_ms",
                "is_control",
            } == {*("type", "version", "name", "size")}


def test_settings_that_are_kept_are_kafkas_and_not_sensitive(jvm: Any) -> None:
    """As controllers see it: what has no definition is sensitive, too
    (``KafkaConfigSchema.isSensitive``).
    """
    kinds = named(jvm, "org.apache.kafka.common.config.ConfigResource$Type")
    brokers = jvm.org.apache.kafka.common.config.ConfigDef(
        named(jvm, "org.apache.kafka.server.config.AbstractKafkaConfig").CONFIG_DEF
    )
    for quota in (
        named(jvm, "org.apache.kafka.server.config.QuotaConfig")
        .brokerQuotaConfigs()
        .configKeys()
        .values()
    ):
        brokers.define(quota)
    definitions = jvm.java.util.HashMap()
    definitions[kinds.BROKER] = brokers
    definitions[kinds.TOPIC] = named(
        jvm, "org.apache.kafka.storage.internals.log.LogConfig"
    ).configDefCopy()
    definitions[kinds.GROUP] = named(
        jvm, "org.apache.kafka.coordinator.group.GroupConfig"
    ).CONFIG_DEF
    schema = named(jvm, "org.apache.kafka.metadata.KafkaConfigSchema")(
        definitions, jvm.java.util.HashMap()
    )

    def sensitive(kept: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
        return [(kind, name) for kind, name in kept if schema.isSensitive(kinds.forId(kind), name)]

    assert sensitive((kind, name) for kind, names in KEPT_CONFIGS.items() for name in names) == []
    assert {kinds.forId(kind) for kind in KEPT_CONFIGS} == {*definitions}
    at_run_time = set(
        named(jvm, "org.apache.kafka.server.config.DynamicBrokerConfig").ALL_DYNAMIC_CONFIGS
    )
    for kind, names in KEPT_CONFIGS.items():
        keys = definitions[kinds.forId(kind)].configKeys()
        plain = {name for name in keys if kind != BROKER or _is_plain(jvm, keys[name])}
        assert set(names) == (plain & at_run_time if kind == BROKER else plain), kind
    secrets = [
        (4, "ssl.key.password"),
        (4, "sasl.jaas.config"),
        (2, "my.own"),
        (32, "min.insync.replicas"),
    ]
    assert sensitive(secrets) == secrets


def _is_plain(jvm: Any, key: Any) -> bool:
    """Whether a setting is a number, true or false, or one of a few words."""
    fields = {field.getName(): field.get(key) for field in key.getClass().getFields()}
    kind, validator = fields["type"].name(), fields["validator"]
    if kind in {"BOOLEAN", "DOUBLE", "INT", "LONG", "SHORT"}:
        return True
    return kind != "PASSWORD" and validator is not None and "[" in validator.toString()


# --- record batches ---


@for_each("codec", CODECS)
@for_each("time", ["CREATE_TIME", "LOG_APPEND_TIME"])
def test_batches_of_kafka_are_read(jvm: Any, codec: str, time: str) -> None:
    rng = random.Random(f"{codec} {time}")
    written = [
        (
            offset,
            1_700_000_000_000 + rng.randrange(99),
            rng.choice([None, b"", rng.randbytes(9)]),
            value,
        )
        for offset in range(100, 400, 3)
        for value in [rng.choice([None, b"", rng.randbytes(80), b"long" * 900])]
    ]
    compression = named(jvm, "org.apache.kafka.common.compress.Compression").of(codec).build()
    timestamp_type = getattr(named(jvm, "org.apache.kafka.common.record.TimestampType"), time)
    data = b""
    for part in (written[:1], written[1:60], written[60:]):
        builder = named(jvm, f"{BATCH_CLASSES}.MemoryRecords").builder(
            jvm.java.nio.ByteBuffer.allocate(1 << 18),
            2,
            compression,
            timestamp_type,
            part[0][0],
            *(1_800_000_000_000, 7),
        )
        for offset, timestamp, key, value in part:
            builder.appendWithOffset(offset, timestamp, _array(key), _array(value))
        data += _bytes(builder.build())
    found = read_batches(data)
    assert found.size == len(data)
    assert found.batches["record_count"].to_pylist() == [1, 59, 40]
    assert [
        (row["offset"], row["timestamp_ms"], row["key"], row["value"])
        for row in found.records.to_pylist()
    ] == [
        (offset, timestamp if time == "CREATE_TIME" else 1_800_000_000_000, key, value)
        for offset, timestamp, key, value in written
    ]
    assert {(row["leader_epoch"], row["is_control"]) for row in found.records.to_pylist()} == {
        (7, False)
    }


def _array(data: bytes | None) -> bytearray | None:
    return None if data is None else bytearray(data)


def _bytes(memory_records: Any) -> bytes:
    buffer = memory_records.buffer()
    return bytes(buffer.array())[: buffer.limit()]


#: Methods of `MemoryRecords` that write a control batch.
CONTROL_WRITERS = {
    2: "withLeaderChangeMessage",
    3: "withSnapshotHeaderRecord",
    4: "withSnapshotFooterRecord",
    5: "withKRaftVersionRecord",
    6: "withVotersRecord",
}


@pytest.mark.parametrize("number", sorted(CONTROL_TYPES))
def test_control_batches_of_kafka_decode_to_what_went_in(jvm: Any, number: int) -> None:
    message = CONTROL_TYPES[number]
    write = getattr(named(jvm, f"{BATCH_CLASSES}.MemoryRecords"), CONTROL_WRITERS[number])

    @quickly
    @given(values_of(message, 0))
    def check(values: dict[str, Any]) -> None:
        java = java_message(jvm, MESSAGES, message, 0, values)
        data = _bytes(
            write(17, 1_700_000_000_000, 5, jvm.java.nio.ByteBuffer.allocate(1 << 16), java)
        )
        (row,) = decode_records(read_batches(data).records).to_pylist()
        assert without_nulls(row) == expected_control(number, 0, values) | {
            "offset": 17,
            "leader_epoch": 5,
            "timestamp_ms": 1_700_000_000_000,
            "is_control": True,
        }

    check()


@for_each(("number", "version"), cluster_records.CONTROLS)
def test_control_records_of_kafka_decode_to_what_went_in(
    jvm: Any, number: int, version: int
) -> None:
    message = CONTROL_TYPES[number]
    (type_of_kafka,) = (
        each
        for each in named(jvm, f"{BATCH_CLASSES}.ControlRecordType").values()
        if each.type() == number
    )
    key = bytes(type_of_kafka.recordKey().array())

    @quickly
    @given(values_of(message, version))
    def check(values: dict[str, Any]) -> None:
        java = java_message(jvm, MESSAGES, message, version, values)
        data = bytes_of(jvm, java, version)
        for count in (1, FEWEST):
            assert (
                decoded([data] * count, [key] * count)
                == [expected_control(number, version, values)] * count
            )

    check()
