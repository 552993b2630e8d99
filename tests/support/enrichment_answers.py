"""Answers of brokers to what is asked beside metadata, in kafka-python's own messages."""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)

from metadata_source.questions import MIN_ISR


def configs(*results: tuple) -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    return DescribeConfigsResponse(
        results=[
            result(
                error_code=code,
                error_message="",
                resource_type=2,
                resource_name=name,
                configs=[
                    config(
                        name=key, value=value, config_source=4 if key == MIN_ISR else 5, synonyms=[]
                    )
                    for key, value in values.items()
                ],
            )
            for name, code, values in results
        ]
    )


def reassignments(code: int = 0, **topics: list) -> ListPartitionReassignmentsResponse:
    topic = ListPartitionReassignmentsResponse.OngoingTopicReassignment
    return ListPartitionReassignmentsResponse(
        error_code=code,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=[1, *adding, *removing],
                        adding_replicas=adding,
                        removing_replicas=removing,
                    )
                    for index, adding, removing in partitions
                ],
            )
            for name, partitions in topics.items()
        ],
    )


NOW_MS = 1_700_000_000_000


def quorum(
    code: int = 0, inner: int = 0, behind_ms: Mapping[int, int | None] | None = None, end: int = 9
) -> DescribeQuorumResponse:
    """`behind_ms`: of replicas that are not as far as controller 3, None: it never was."""
    behind_ms = {} if behind_ms is None else behind_ms
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData

    def follower(number: int) -> Any:
        behind = behind_ms.get(number, 0)
        caught_up = -1 if behind is None else NOW_MS + end - behind
        times = {"last_fetch_timestamp": NOW_MS + end, "last_caught_up_timestamp": caught_up}
        return partition.ReplicaState(replica_id=number, log_end_offset=end, **times)

    described = partition(
        partition_index=0,
        error_code=inner,
        leader_id=3,
        leader_epoch=17,
        high_watermark=9,
        current_voters=[follower(n) for n in (1, 2, 3)],
        observers=[follower(4)],
    )
    topics = [] if code else [topic(topic_name="__cluster_metadata", partitions=[described])]
    return DescribeQuorumResponse(error_code=code, topics=topics, nodes=[])


def fenced(code: int = 0) -> DescribeClusterResponse:
    broker = DescribeClusterResponse.DescribeClusterBroker
    brokers = [
        broker(broker_id=n, host=f"b{n}", port=9092, rack="r" if n == 2 else None, is_fenced=n > 1)
        for n in (1, 2, 3)
    ]
    return DescribeClusterResponse(error_code=code, cluster_id="id", brokers=brokers)


def page(cursor: tuple[str, int] | None, **topics: list) -> DescribeTopicPartitionsResponse:
    """`topics`: name -> (partition, elr, last known elr, ISR unless empty) of each partition, or an
    error code.
    """
    response = DescribeTopicPartitionsResponse
    topic = response.DescribeTopicPartitionsResponseTopic
    return response(
        topics=[
            topic(
                error_code=partitions if isinstance(partitions, int) else 0,
                name=name,
                topic_id=None,
                partitions=[
                    topic.DescribeTopicPartitionsResponsePartition(
                        partition_index=index,
                        error_code=5,
                        leader_id=-1,
                        replica_nodes=[1, 2],
                        isr_nodes=isr,
                        eligible_leader_replicas=elr,
                        last_known_elr=last_known,
                        offline_replicas=[],
                    )
                    for index, elr, last_known, *isr in (
                        [] if isinstance(partitions, int) else partitions
                    )
                ],
            )
            for name, partitions in topics.items()
        ],
        next_cursor=None
        if cursor is None
        else response.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
