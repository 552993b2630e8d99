"""Nulls that kafka-python takes for values: each is one line that names the request and the
field.
"""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse

from metadata_source import questions
from metadata_source.errors import PollError
from metadata_source.nulls import null_field
from metadata_source.transport import Answer

RESULT = DescribeConfigsResponse.DescribeConfigsResult(
    error_code=0, error_message=None, resource_type=2, resource_name="t", configs=None
)
GROUP = DescribeGroupsResponse.DescribedGroup(
    error_code=0, group_id="g", group_state=None, members=[]
)
TOPIC = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PARTITION = TOPIC.DescribeTopicPartitionsResponsePartition(
    replica_nodes=None, isr_nodes=[], offline_replicas=[]
)


def decoded(response, version: int):
    return response.decode(response.encode(version=version), version=version)


@pytest.mark.parametrize(
    ("response", "field"),
    [
        (DescribeGroupsResponse(groups=None), "groups"),
        (DescribeGroupsResponse(groups=[GROUP]), "groups[0].group_state"),
        (DescribeConfigsResponse(results=[RESULT]), "results[0].configs"),
        (ListGroupsResponse(error_code=0, groups=None), "groups"),
        (ListPartitionReassignmentsResponse(error_code=0, topics=None), "topics"),
        (DescribeQuorumResponse(error_code=0, topics=None, nodes=[]), "topics"),
        (DescribeClusterResponse(error_code=0, cluster_id=None, brokers=[]), "cluster_id"),
        (DescribeClusterResponse(error_code=0, cluster_id="id", brokers=None), "brokers"),
        (
            DescribeTopicPartitionsResponse(topics=[TOPIC(name="t", partitions=[PARTITION])]),
            "topics[0].partitions[0].replica_nodes",
        ),
        (FetchResponse(error_code=0, responses=None), "responses"),
        (ListOffsetsResponse(topics=None), "topics"),
    ],
)
def test_a_null_where_kafka_allows_none_is_named(response, field):
    version = min(response.max_version, 12)
    assert null_field(decoded(response, version), version) == field


def test_what_may_be_null_may():
    topic = TOPIC(name=None, partitions=[])
    assert (
        null_field(decoded(DescribeTopicPartitionsResponse(topics=[topic], next_cursor=None), 0), 0)
        is None
    )
    whole = DescribeClusterResponse(error_code=0, error_message=None, cluster_id="id", brokers=[])
    assert null_field(decoded(whole, 2), 2) is None


def test_no_answer_with_one_is_handed_on():
    body = DescribeQuorumResponse(error_code=0, topics=None, nodes=[]).encode(version=2)
    broker: Any = SimpleNamespace(
        address=("one", 9092),
        api_versions={55: (0, 2)},
        request=lambda *_, **__: Answer(body, datetime.now(UTC), 1.0),
    )
    with pytest.raises(PollError) as raised:
        questions.quorum().ask(broker, 0.0)
    assert raised.value.kind == "protocol"
    assert (
        raised.value.problem
        == "one:9092: DescribeQuorumResponse v2: topics: null, where null is not allowed"
    )
