"""Every field of every version comes out as kafka-python put it in, on the fast way and on the
exact one.
"""

import random
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from metadata_source.protocol import metadata
from metadata_source.protocol.exact import Columns, Reader
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.metadata_messages import cluster, decoded, expected, responses, with_unknown_tags

VERSIONS = range(14)
FLEXIBLE = range(9, 14)
quickly = settings(max_examples=examples(6), suppress_health_check=[HealthCheck.too_slow])


def kafka_python_body(response: dict[str, Any], version: int) -> bytes:
    topic_class = MetadataResponse.MetadataResponseTopic
    return bytes(
        MetadataResponse(
            throttle_time_ms=response["throttle_time_ms"],
            brokers=[
                MetadataResponse.MetadataResponseBroker(**broker) for broker in response["brokers"]
            ],
            cluster_id=response["cluster_id"],
            controller_id=response["controller_id"],
            topics=[
                topic_class(
                    error_code=topic["error_code"],
                    name=topic["name"],
                    topic_id=uuid.UUID(bytes=topic["topic_id"]),
                    is_internal=topic["is_internal"],
                    partitions=[
                        topic_class.MetadataResponsePartition(**entry)
                        for entry in topic["partitions"]
                    ],
                    authorized_operations=_bits(topic["topic_authorized_operations"]),
                )
                for topic in response["topics"]
            ],
            authorized_operations=_bits(response["cluster_authorized_operations"]),
            error_code=response["error_code"],
        ).encode(version=version)
    )


def _bits(operations: int) -> set[int]:
    return {bit for bit in range(32) if operations >> bit & 1}


def exactly_read(body: bytes, version: int) -> metadata.ClusterMetadata:
    return metadata._cluster_metadata(exact_columns(body, version))


def exact_columns(body: bytes, version: int) -> Columns:
    return Reader(body, METADATA_RESPONSE, version).read_message()


@for_each("version", VERSIONS)
def test_responses_of_kafka_python_decode_to_what_went_in(version: int) -> None:
    @quickly
    @given(responses(version))
    def check(response: dict[str, Any]) -> None:
        body = kafka_python_body(response, version)
        assert decoded(decode_response(body, version)) == expected(response, version)
        assert decoded(exactly_read(body, version)) == expected(response, version)

    check()


@pytest.mark.parametrize("version", FLEXIBLE)
def test_unknown_tagged_fields_are_skipped(version: int) -> None:
    response = cluster(3, 3, shrunk=0.5)
    body = with_unknown_tags(kafka_python_body(response, version), version, random.Random(version))
    assert decoded(decode_response(body, version)) == expected(response, version)


@pytest.mark.parametrize("version", [1, 12])
def test_names_that_are_there_twice_share_a_dictionary_entry(version: int) -> None:
    response = cluster(6, 5)
    response["topics"][4] = response["topics"][2]
    table = decode_response(write_message(METADATA_RESPONSE, version, response), version).partitions
    names = table["topic"].combine_chunks().dictionary.to_pylist()
    assert sorted(names) == sorted({topic["name"] for topic in response["topics"]})


def test_empty_cluster() -> None:
    for version in VERSIONS:
        response = cluster(0, 0)
        response["brokers"] = []
        body = write_message(METADATA_RESPONSE, version, response)
        assert decoded(decode_response(body, version)) == expected(response, version)


def test_tables_have_the_same_schema_in_every_version() -> None:
    for version in VERSIONS:
        result = decode_response(write_message(METADATA_RESPONSE, version, cluster(2, 2)), version)
        assert result.brokers.schema == metadata.BROKERS
        assert result.topics.schema == metadata.TOPICS
        assert result.partitions.schema == metadata.PARTITIONS


def test_a_boolean_is_true_for_every_byte_but_zero() -> None:
    response = cluster(1, 1)
    body = write_message(METADATA_RESPONSE, 1, response)
    name = response["topics"][0]["name"].encode()
    at = body.index(name) + len(name)
    for byte in (0, 1, 2, 255):
        changed = body[:at] + bytes([byte]) + body[at + 1 :]
        assert decode_response(changed, 1).topics["is_internal"].to_pylist() == [byte != 0]
        assert exactly_read(changed, 1).topics["is_internal"].to_pylist() == [byte != 0]


@for_each("version", VERSIONS)
@for_each("topics", [None, [], ["orders"], ["orders", "zahlungen-ü", "x" * 249]])
def test_requests_are_those_of_kafka_python(version: int, topics: list[str] | None) -> None:
    if version == 0 and topics == []:
        with pytest.raises(ValueError, match="every topic"):
            encode_request(version, topics)
        return
    entries = topics and [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(
        topics=entries,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    assert encode_request(version, topics) == bytes(request.encode(version=version))


@pytest.mark.parametrize("version", [-1, 14])
def test_versions_that_do_not_exist_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match="versions 0 to 13"):
        decode_response(b"", version)
    with pytest.raises(ValueError, match="versions 0 to 13"):
        encode_request(version)
