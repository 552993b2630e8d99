"""Usual answers are read without a step for each partition, and say the same; all else is left to
the exact reader.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metadata_source.errors import ProtocolError
from metadata_source.protocol import metadata
from metadata_source.protocol.exact import Columns, Reader
from metadata_source.protocol.metadata import decode_response
from metadata_source.protocol.spec import METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.metadata_messages import cluster, decoded, expected

VERSIONS = range(14)


def exactly_read(body: bytes, version: int) -> metadata.ClusterMetadata:
    return metadata._cluster_metadata(exact_columns(body, version))


def exact_columns(body: bytes, version: int) -> Columns:
    return Reader(body, METADATA_RESPONSE, version).read_message()


@for_each("version", VERSIONS)
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


@given(version=st.sampled_from(VERSIONS), made=st.sampled_from(range(5)), data=st.data())
@settings(max_examples=examples(40))
def test_the_fast_way_says_the_same_as_the_exact_one_or_nothing(
    version: int, made: int, data: st.DataObject
) -> None:
    body = bytearray(
        write_message(METADATA_RESPONSE, version, cluster(3, 8, seed=made, shrunk=0.5))
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
