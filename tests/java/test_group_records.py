"""Kafka's own Java classes have the fields that the tables have, and what they write decodes to
what went in.
"""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.consumer_protocol import (
    read_assignments,
    read_one,
    read_subscriptions,
)
from metadata_source.protocol.group_specs import (
    ASSIGNMENT,
    OFFSET_COMMIT,
    RECORD_TYPES,
    SUBSCRIPTION,
)
from metadata_source.protocol.offset_commits import read_keys, read_values
from metadata_source.protocol.spec import Message
from tests.support import group_messages
from tests.support.definitions import LATER
from tests.support.for_each import for_each
from tests.support.group_messages import decoded, expected, records, said, structs, without_nulls
from tests.support.kafka_classes import MESSAGES, check_schemas, java_message

RECORD_CLASSES = "org.apache.kafka.coordinator.group.generated"
CONSUMER_PROTOCOL = "org.apache.kafka.clients.consumer.internals.ConsumerProtocol"

#: Types of records that these classes have, those of offset commits left out.
IN_KAFKA = {
    number: each
    for number, each in RECORD_TYPES.items()
    if each.key.name.removesuffix("Key") not in LATER
}

quickly = settings(
    max_examples=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@for_each(("number", "version"), [each for each in group_messages.RECORDS if each[0] in IN_KAFKA])
def test_records_of_kafka_decode_to_what_went_in(jvm: Any, number: int, version: int) -> None:
    record_type = RECORD_TYPES[number]
    serde = getattr(jvm, "org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde")()
    record_class = getattr(jvm, "org.apache.kafka.coordinator.common.runtime.CoordinatorRecord")
    with_version = getattr(jvm, "org.apache.kafka.server.common.ApiMessageAndVersion")

    @quickly
    @given(records(number, version))
    def check(record: tuple[dict[str, Any], dict[str, Any]]) -> None:
        key, value = record
        java_key = java_message(jvm, RECORD_CLASSES, record_type.key, 0, key)
        java_value = java_message(jvm, RECORD_CLASSES, record_type.value, version, value)
        written = record_class.record(java_key, with_version(java_value, version))
        gone = record_class.tombstone(java_key)
        # One is read by the exact reader, many are read side by side.
        for count in (1, FEWEST):
            rows = decoded(
                [bytes(serde.serializeKey(written)), bytes(serde.serializeKey(gone))] * count,
                [bytes(serde.serializeValue(written)), serde.serializeValue(gone)] * count,
            )
            assert (
                rows
                == [expected(number, version, key, value), expected(number, version, key, None)]
                * count
            )

    check()


@for_each(("number", "version"), [(0, 0), *((1, version) for version in range(5))])
def test_offset_commits_of_kafka_decode_to_what_went_in(
    jvm: Any, number: int, version: int
) -> None:
    serde = getattr(jvm, "org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde")()
    record_class = getattr(jvm, "org.apache.kafka.coordinator.common.runtime.CoordinatorRecord")
    with_version = getattr(jvm, "org.apache.kafka.server.common.ApiMessageAndVersion")
    key, value = (
        replace(each, name=each.name if number else f"Legacy{each.name}")
        for each in (OFFSET_COMMIT.key, OFFSET_COMMIT.value)
    )

    @quickly
    @given(structs(key.body, 0), structs(value.body, version), st.text(max_size=9))
    def check(names: dict[str, Any], told: dict[str, Any], metadata: str) -> None:
        told |= {"offset": told["offset"] & 2**63 - 1, "metadata": metadata}
        java_key = java_message(jvm, RECORD_CLASSES, key, 0, names)
        written = record_class.record(
            java_key, with_version(java_message(jvm, RECORD_CLASSES, value, version, told), version)
        )
        raw_key, raw_value = (
            bytes(serde.serializeKey(written)),
            bytes(serde.serializeValue(written)),
        )
        assert int.from_bytes(raw_key[:2]) == number
        for count in (1, FEWEST):
            assert (
                read_keys(pa.array([raw_key] * count))
                == [(names["group"], names["topic"], names["partition"])] * count
            )
            found = read_values(pa.array([raw_value, None] * count))
            assert found.is_removal.tolist() == [False, True] * count
            assert not found.is_wrong.any()
            assert found.offsets[::2].tolist() == [told["offset"]] * count
            ids = [topic_id.tobytes() for topic_id in found.topic_ids[::2]]
            assert ids == [told.get("topic_id", bytes(16)) if version >= 4 else bytes(16)] * count

    check()


@pytest.mark.parametrize(
    ("message", "read"), [(SUBSCRIPTION, read_subscriptions), (ASSIGNMENT, read_assignments)]
)
@for_each("version", [0, 1, 2, 3, 4, 32767])
def test_the_consumer_protocol_of_kafka_reads_as_it_does_there(
    jvm: Any, version: int, message: Message, read: Any
) -> None:
    as_kafka = getattr(getattr(jvm, CONSUMER_PROTOCOL), f"deserialize{message.name}")
    writable = min(version, message.last_version)

    @quickly
    @given(structs(message.body, writable), st.binary(max_size=3))
    def check(values: dict[str, Any], rest: bytes) -> None:
        java = java_message(jvm, MESSAGES, message, writable, values)
        body = bytes(
            jvm.org.apache.kafka.common.protocol.MessageUtil.toVersionPrefixedBytes(writable, java)
        )
        data = version.to_bytes(2) + body[2:] + (rest if version > writable else b"")
        told = {"version": version} | said(values)
        for count in (1, FEWEST):
            assert without_nulls(read(pa.array([data] * count)).to_pylist()) == [told] * count
        assert {"version": version} | said(read_one(message, data) or {}) == told
        assert as_kafka(jvm.java.nio.ByteBuffer.wrap(data)).equals(java)

    check()


def test_the_record_types_are_those_of_kafka(jvm: Any) -> None:
    types = getattr(jvm, f"{RECORD_CLASSES}.CoordinatorRecordType").values()
    versions = {
        each.id(): (each.lowestSupportedVersion(), each.highestSupportedVersion()) for each in types
    }
    of_commits = {0: (0, 0), 1: (0, OFFSET_COMMIT.value.last_version)}
    assert versions == of_commits | {
        number: (0, each.value.last_version) for number, each in IN_KAFKA.items()
    }


TABLES = [
    *(
        (RECORD_CLASSES, message)
        for each in (OFFSET_COMMIT, *IN_KAFKA.values())
        for message in (each.key, each.value)
    ),
    (MESSAGES, SUBSCRIPTION),
    (MESSAGES, ASSIGNMENT),
]


@for_each(("package", "message"), TABLES)
def test_the_tables_are_the_schemas_of_kafka(jvm: Any, package: str, message: Message) -> None:
    check_schemas(jvm, package, message)
