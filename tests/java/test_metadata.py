"""Kafka's own Java classes write responses, and write and read requests, as this decoder and
encoder do.
"""

import base64
import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from py4j.protocol import Py4JJavaError

from metadata_source.errors import ProtocolError
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import (
    METADATA_REQUEST,
    METADATA_RESPONSE,
    Array,
    Primitive,
    Struct,
)
from tests.support.for_each import for_each
from tests.support.group_messages import camel_case
from tests.support.kafka_classes import MESSAGES, as_json, bytes_of, read_json
from tests.support.metadata_messages import cluster, decoded, expected, responses

VERSIONS = range(14)


def java_response(jvm: Any, response: dict[str, Any], version: int) -> Any:
    values = as_json(METADATA_RESPONSE.body, response, version)
    return read_json(jvm, f"{MESSAGES}.MetadataResponseData", values, version)


@for_each("version", VERSIONS)
def test_responses_of_kafka_decode_to_what_went_in(jvm: Any, version: int) -> None:
    @settings(
        max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(responses(version))
    def check(response: dict[str, Any]) -> None:
        body = bytes_of(jvm, java_response(jvm, response, version), version)
        assert decoded(decode_response(body, version)) == expected(response, version)

    check()


@for_each("version", VERSIONS)
def test_a_usual_response_of_kafka_decodes_to_what_went_in(jvm: Any, version: int) -> None:
    response = cluster(5, 150, shrunk=0.4, replication=(1, 3))
    body = bytes_of(jvm, java_response(jvm, response, version), version)
    assert decoded(decode_response(body, version)) == expected(response, version)


def test_ten_thousand_partitions_in_one_topic_of_kafka(jvm: Any) -> None:
    response = cluster(1, 10_000, shrunk=0.2)
    body = bytes_of(jvm, java_response(jvm, response, 12), 12)
    assert decoded(decode_response(body, 12)) == expected(response, 12)


@pytest.mark.parametrize("version", range(9, 14))
def test_unknown_tagged_fields_that_kafka_writes_are_skipped(jvm: Any, version: int) -> None:
    response = cluster(3, 3, shrunk=0.5)
    data = java_response(jvm, response, version)
    topics = list(jvm.java.util.ArrayList(data.topics()))
    for tagged in [
        data,
        *jvm.java.util.ArrayList(data.brokers()),
        *topics,
        *(entry for topic in topics for entry in topic.partitions()),
    ]:
        for tag, content in ((0, b""), (77, b"x" * 200), (5000, b"\0\1")):
            tagged.unknownTaggedFields().add(
                jvm.org.apache.kafka.common.protocol.types.RawTaggedField(tag, content)
            )
    body = bytes_of(jvm, data, version)
    assert b"x" * 200 in body
    assert decoded(decode_response(body, version)) == expected(response, version)


@for_each(
    ("version", "topics"),
    [
        (version, topics)
        for version in VERSIONS
        for topics in (None, [], ["orders", "zahlungen-ü", "x" * 249])
        if version > 0 or topics != []
    ],
)
def test_requests_are_those_of_kafka(jvm: Any, version: int, topics: list[str] | None) -> None:
    entries = topics and [{"topic_id": bytes(16), "name": name} for name in topics]
    values = {
        "topics": entries if version or entries else [],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    asked = as_json(METADATA_REQUEST.body, values, version)
    data = read_json(jvm, f"{MESSAGES}.MetadataRequestData", asked, version)
    assert encode_request(version, topics) == bytes_of(jvm, data, version)


def java_reading(jvm: Any, body: bytes, version: int) -> dict[str, Any] | None:
    """Return what Kafka's classes read, as plain values, None if they refuse the body."""
    readable = jvm.org.apache.kafka.common.protocol.ByteBufferAccessor(
        jvm.java.nio.ByteBuffer.wrap(body)
    )
    try:
        data = getattr(jvm, f"{MESSAGES}.MetadataResponseData")(readable, version)
    except Py4JJavaError:
        return None
    node = getattr(jvm, f"{MESSAGES}.MetadataResponseDataJsonConverter").write(data, version)
    return from_json(METADATA_RESPONSE.body, json.loads(node.toString()), version)


def from_json(struct: Struct, node: dict[str, Any], version: int) -> dict[str, Any]:
    values: dict[str, Any] = {each.name: None for each in struct.fields}
    for each in struct.in_version(version):
        value = node[camel_case(each.name)]
        if isinstance(each.type, Array) and isinstance(each.type.of, Struct):
            value = [from_json(each.type.of, entry, version) for entry in value]
        values[each.name] = (
            base64.urlsafe_b64decode(value + "==") if each.type is Primitive.UUID else value
        )
    return values


@for_each("version", [0, 4, 5, 8, 9, 12, 13])
def test_of_mutated_bodies_only_those_are_read_that_kafka_reads_and_in_the_same_way(
    jvm: Any, version: int
) -> None:
    rng = random.Random(version)
    whole = bytes_of(jvm, java_response(jvm, cluster(2, 2, shrunk=0.5), version), version)
    read = 0
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2))):
            body[rng.randrange(len(body))] = rng.choice((0, 1, 2, 4, 255, rng.randrange(256)))
        try:
            ours = decoded(decode_response(bytes(body), version))
        except ProtocolError:
            continue
        theirs = java_reading(jvm, bytes(body), version)
        assert theirs is not None
        assert ours == expected(theirs, version)
        read += 1
    assert read > 10
