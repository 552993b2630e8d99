"""Kafka's own Java classes write responses, and write and read requests, as this decoder and encoder do."""

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE, Array, Field, Primitive, Struct
from tests.metadata_messages import cluster, decoded, expected, responses

VERSIONS = range(14)
MESSAGES = "org.apache.kafka.common.message"


@pytest.fixture(scope="module")
def jvm(spark: Any) -> Any:
    return spark.sparkContext._jvm


def java_data(jvm: Any, name: str, values: dict[str, Any], version: int) -> Any:
    """Return the message `name` of Kafka's classes, read from JSON."""
    node = jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree(json.dumps(values))
    return getattr(jvm, f"{MESSAGES}.{name}DataJsonConverter").read(node, version)


def java_bytes(jvm: Any, data: Any, version: int) -> bytes:
    return bytes(jvm.org.apache.kafka.common.protocol.MessageUtil.toByteBufferAccessor(data, version).buffer().array())


def as_json(struct: Struct, values: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the values as the JSON converter of this version wants them: no field that the version lacks."""
    return {
        _camel_case(each.name): _json_value(each, values[each.name], version) for each in struct.in_version(version)
    }


def _json_value(field: Field, value: Any, version: int) -> Any:
    if isinstance(field.type, Array) and isinstance(field.type.of, Struct):
        return value and [as_json(field.type.of, entry, version) for entry in value]
    if field.type is Primitive.UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def java_response(jvm: Any, response: dict[str, Any], version: int) -> Any:
    return java_data(jvm, "MetadataResponse", as_json(METADATA_RESPONSE.body, response, version), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_responses_of_kafka_decode_to_what_went_in(jvm: Any, version: int) -> None:
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(responses(version))
    def check(response: dict[str, Any]) -> None:
        body = java_bytes(jvm, java_response(jvm, response, version), version)
        assert decoded(decode_response(body, version)) == expected(response, version)

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_usual_response_of_kafka_decodes_to_what_went_in(jvm: Any, version: int) -> None:
    response = cluster(5, 150, shrunk=0.4, replication=(1, 3))
    body = java_bytes(jvm, java_response(jvm, response, version), version)
    assert decoded(decode_response(body, version)) == expected(response, version)


def test_ten_thousand_partitions_in_one_topic_of_kafka(jvm: Any) -> None:
    response = cluster(1, 10_000, shrunk=0.2)
    body = java_bytes(jvm, java_response(jvm, response, 12), 12)
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
            tagged.unknownTaggedFields().add(jvm.org.apache.kafka.common.protocol.types.RawTaggedField(tag, content))
    body = java_bytes(jvm, data, version)
    assert b"x" * 200 in body
    assert decoded(decode_response(body, version)) == expected(response, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [None, [], ["orders", "zahlungen-ü", "x" * 249]])
def test_requests_are_those_of_kafka(jvm: Any, version: int, topics: list[str] | None) -> None:
    if version == 0 and topics == []:
        pytest.skip("v0 has no way to ask for no topic")
    entries = topics and [{"topic_id": bytes(16), "name": name} for name in topics]
    values = {
        "topics": entries if version or entries else [],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    data = java_data(jvm, "MetadataRequest", as_json(METADATA_REQUEST.body, values, version), version)
    assert encode_request(version, topics) == java_bytes(jvm, data, version)
