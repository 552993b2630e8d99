"""Every field of every version comes out as kafka-python put it in, on the fast way and on the
exact one.
"""

import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from metadata_source.errors import ProtocolError
from metadata_source.protocol import metadata
from metadata_source.protocol.exact import Columns, Reader
from metadata_source.protocol.metadata import decode_response, encode_request
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.examples import examples
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


@pytest.mark.parametrize("version", VERSIONS)
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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(cluster(3, 40), id="in sync"),
        pytest.param(cluster(3, 40, shrunk=0.5), id="half shrunk"),
        pytest.param(
            cluster(40, 1, shrunk=0.1, replication=(1, 2, 3, 5)),
            id="many topics, several replication factors",
        ),
        pytest.param(
            cluster(2, 300, shrunk=0.5, replication=(2, 3)), id="more than 127 partitions"
        ),
    ],
)
def test_usual_clusters_are_read_without_a_step_for_each_partition(
    version: int, response: dict[str, Any]
) -> None:
    body = write_message(METADATA_RESPONSE, version, response)
    columns = metadata._read_fast(body, version)
    assert columns is not None
    assert decoded(metadata._cluster_metadata(columns)) == expected(response, version)
    assert decoded(exactly_read(body, version)) == expected(response, version)


@pytest.mark.parametrize("version", [4, 12])
def test_ten_thousand_partitions_in_one_topic(version: int) -> None:
    response = cluster(1, 10_000, shrunk=0.3)
    body = write_message(METADATA_RESPONSE, version, response)
    assert metadata._read_fast(body, version) is not None
    assert decoded(decode_response(body, version)) == expected(response, version)


@pytest.mark.parametrize("version", [1, 12])
def test_topics_without_partitions_do_not_leave_the_fast_way(version: int) -> None:
    response = cluster(9, 6, shrunk=0.5)
    for index in (0, 3, 4, 8):
        response["topics"][index] |= {"partitions": [], "error_code": 3}
    if version >= 12:
        response["topics"][4]["name"] = None
    body = write_message(METADATA_RESPONSE, version, response)
    assert metadata._read_fast(body, version) is not None
    assert decoded(decode_response(body, version)) == expected(response, version)


@pytest.mark.parametrize("version", [1, 12])
def test_names_that_are_there_twice_share_a_dictionary_entry(version: int) -> None:
    response = cluster(6, 5)
    response["topics"][4] = response["topics"][2]
    table = decode_response(write_message(METADATA_RESPONSE, version, response), version).partitions
    names = table["topic"].combine_chunks().dictionary.to_pylist()
    assert sorted(names) == sorted({topic["name"] for topic in response["topics"]})


@pytest.mark.parametrize("version", [4, 12])
def test_what_is_not_usual_is_read_the_exact_way(version: int) -> None:
    response = cluster(4, 30)
    response["topics"][2]["partitions"][7] |= {
        "replica_nodes": list(range(200)),
        "isr_nodes": list(range(300)),
    }
    body = write_message(METADATA_RESPONSE, version, response)
    assert metadata._read_fast(body, version) is None
    assert decoded(decode_response(body, version)) == expected(response, version)


@given(version=st.sampled_from(VERSIONS), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=examples(40))
def test_the_fast_way_says_the_same_as_the_exact_one_or_nothing(
    version: int, seed: int, data: st.DataObject
) -> None:
    body = bytearray(
        write_message(METADATA_RESPONSE, version, cluster(3, 8, seed=seed, shrunk=0.5))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(150, len(body) - 1))] = data.draw(
            st.integers(0, 5) | st.integers(0, 255)
        )
    fast, exact = (
        read(bytes(body), version, metadata._read_fast),
        read(bytes(body), version, exact_columns),
    )
    if fast is not None:
        assert fast == exact


def read(
    body: bytes, version: int, reader: Callable[[bytes, int], Columns | None]
) -> dict[str, Any] | str | None:
    """Return what this way of reading gives: values, the text of an error, or None if it leaves the
    body to the other way.
    """
    try:
        columns = reader(body, version)
    except ProtocolError as error:
        return str(error)
    return columns and decoded(metadata._cluster_metadata(columns))


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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("topics", [None, [], ["orders"], ["orders", "zahlungen-ü", "x" * 249]])
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
