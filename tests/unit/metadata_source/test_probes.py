"""What answers to probes are taken to mean, in kafka-python's own messages, whose fields the probes
rely on.
"""

import pytest
from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeGroupsResponse,
    DescribeLogDirsResponse,
    DescribeProducersResponse,
    DescribeQuorumResponse,
    DescribeTransactionsResponse,
    ListGroupsResponse,
    ListPartitionReassignmentsResponse,
    ListTransactionsResponse,
)
from kafka.protocol.consumer import FetchResponse

from metadata_source.kafka_constants import UNKNOWN_TOPIC_OR_PARTITION
from metadata_source.options import parse
from metadata_source.probes import NO_LOG, NO_TRANSACTION_LOG, MinIsr, Prober
from metadata_source.questions import DENIED
from tests.support.for_each import for_each


class Answered(Prober):
    """Keeps what is asked and answers with these messages, both as they come out of their bytes."""

    def __init__(self, *answers) -> None:
        cluster = parse({"kafka.bootstrap.servers": "one:9092"}).clusters[0]
        super().__init__(cluster, cluster.bootstrap_servers[0])
        self._answers = iter(answers)
        self.asked = []

    def _ask(self, question):
        request = question.request
        version = request.max_version if question.highest is None else question.highest
        assert version >= max(question.lowest, request.min_version)
        asked = request(version=version, **question.fields)
        self.asked.append(request.decode(asked.encode(version=version), version=version))
        return (answer := next(self._answers)).decode(
            answer.encode(version=version), version=version
        )


def group(code: int) -> DescribeGroupsResponse:
    described = DescribeGroupsResponse.DescribedGroup(error_code=code, group_id="g", members=[])
    return DescribeGroupsResponse(groups=[described])


LOGS = ("__consumer_offsets", "__transaction_state")


def fetched(code: int, log: str) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData(partition_index=0, error_code=code, high_watermark=0)
    return FetchResponse(error_code=0, responses=[topic(topic=log, partitions=[partition])])


def answers(code: int, *listed) -> list:
    """The answers to all questions, in their order, with this error code."""
    return [
        ListPartitionReassignmentsResponse(error_code=code, topics=[]),
        DescribeQuorumResponse(error_code=code, topics=[], nodes=[]),
        DescribeClusterResponse(error_code=code, cluster_id="id", brokers=[]),
        group(code),
        *listed,
        *(fetched(code, log) for log in LOGS),
        *of_transactions(code),
        DescribeLogDirsResponse(error_code=code, results=[]),
    ]


def of_transactions(code: int, *ids: str) -> list:
    """The answers about an id that nobody has, about all ids where that one is refused, and about
    producers.
    """
    described, listed = (
        each.TransactionState for each in (DescribeTransactionsResponse, ListTransactionsResponse)
    )
    known = [
        listed(transactional_id=each, producer_id=1, transaction_state="Empty") for each in ids
    ]
    topic = DescribeProducersResponse.TopicResponse
    partition = topic.PartitionResponse(partition_index=0, error_code=code, active_producers=[])
    asked = [described(error_code=code, transactional_id="x", transaction_state="", topics=[])]
    every = ListTransactionsResponse(
        error_code=0, unknown_state_filters=[], transaction_states=known
    )
    return [
        DescribeTransactionsResponse(transaction_states=asked),
        *([every] if code in DENIED else []),
        DescribeProducersResponse(topics=[topic(name="t", partitions=[partition])]),
    ]


def said(*given) -> list[str]:
    return [permission.answer for permission in Answered(*given).permissions()]


@for_each("code", [0, 3, 5, 15, 16, 69])
def test_no_error_and_errors_that_come_after_the_check_say_allowed(code):
    is_gone = code == UNKNOWN_TOPIC_OR_PARTITION
    logs = [NO_LOG, NO_TRANSACTION_LOG] if is_gone else ["allowed"] * 2
    assert said(*answers(code)) == ["allowed"] * 4 + logs + ["allowed"] * 3


@pytest.mark.parametrize("code", [29, 30, 31])
def test_denied_says_what_is_missing(code):
    lines = said(*answers(code, ListGroupsResponse(error_code=0, groups=[])))
    assert [line.partition(": ")[0] for line in lines] == ["missing"] * 9


def test_some_groups_are_enough():
    listed = ListGroupsResponse.ListedGroup(group_id="g", protocol_type="consumer")
    assert said(*answers(30, ListGroupsResponse(error_code=0, groups=[listed])))[3] == "allowed"


def test_some_transactional_ids_are_enough_and_one_that_nobody_has_is_not_there():
    *others, log_dirs = answers(0)
    ids, every, _ = of_transactions(53, "mine")
    answered = [*others[:6], ids, every, of_transactions(29)[-1], log_dirs]
    assert said(*answered)[6:] == ["allowed", "missing: READ on the topics", "allowed"]
    not_found = [*others[:6], *of_transactions(105), log_dirs]
    assert said(*not_found)[6] == "allowed"


def test_a_broker_that_is_not_the_controller_has_checked_the_permission_for_reassignments():
    reassignments, *others = said(*answers(41))
    assert reassignments == "allowed"
    assert [line.partition(" (")[0] for line in others] == ["not known: error 41"] * 8


@pytest.mark.parametrize("code", [-1, 7, 35, 42, 999])
def test_any_other_error_is_not_taken_for_an_answer(code):
    assert [line.partition(" (")[0] for line in said(*answers(code))] == [
        f"not known: error {code}"
    ] * 9


def test_a_throttled_fetch_with_nothing_in_it_is_not_taken_for_an_answer():
    others, after = answers(0)[:4], answers(0)[5:]
    throttled = FetchResponse(throttle_time_ms=500, error_code=0, responses=[])
    assert said(*others, throttled, *after)[4] == "not known: throttled by the broker for 500 ms"
    refused = FetchResponse(throttle_time_ms=0, error_code=7, responses=[])
    assert said(*others, refused, *after)[4].startswith("not known: error 7 (")


def test_what_is_asked_is_asked_for_nothing_more():
    prober = Answered(*answers(0))
    prober.permissions()
    reassignments, quorum, described, groups, *fetches, ids, producers, log_dirs = prober.asked
    assert ids.transactional_ids == ["kafka-metadata-history-probe"]
    assert [(topic.name, topic.partition_indexes) for topic in producers.topics] == [
        ("kafka-metadata-history-probe", [0])
    ]
    assert (reassignments.topics, log_dirs.topics) == (None, [])
    assert [(topic.topic_name, topic.partitions[0].partition_index) for topic in quorum.topics] == [
        ("__cluster_metadata", 0)
    ]
    assert (described.include_cluster_authorized_operations, described.include_fenced_brokers) == (
        False,
        True,
    )
    assert (groups.groups, groups.include_authorized_operations) == (
        ["kafka-metadata-history-probe"],
        False,
    )
    asked = [(topic, *topic.partitions) for fetch in fetches for topic in fetch.topics]
    assert [
        (topic.topic, partition.fetch_offset, partition.partition_max_bytes)
        for topic, partition in asked
    ] == [(log, 2**62, 1) for log in LOGS]


def test_min_isr_is_asked_for_alone_and_in_parts():
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult(
        name="min.insync.replicas", value="2", synonyms=[]
    )
    topics = [f"t{n}" for n in range(501)]
    prober = Answered(
        DescribeConfigsResponse(
            results=[
                result(
                    error_code=0,
                    error_message="",
                    resource_type=2,
                    resource_name="t0",
                    configs=[config],
                ),
                result(
                    error_code=29, error_message="", resource_type=2, resource_name="t1", configs=[]
                ),
            ]
        ),
        DescribeConfigsResponse(results=[]),
    )
    assert prober.min_isr(topics).known == {"t0": 2}
    resources = [resource for request in prober.asked for resource in request.resources]
    assert [resource.resource_name for resource in resources] == topics
    assert {(resource.resource_type, *resource.configuration_keys) for resource in resources} == {
        (2, "min.insync.replicas")
    }
    assert [len(request.resources) for request in prober.asked] == [500, 1]


def described(**of_group) -> list:
    return [
        *answers(0)[:3],
        DescribeGroupsResponse(groups=[group(0).groups[0]] * of_group["count"]),
        *answers(0)[4:],
    ]


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_about_another_number_of_things_is_not_known(count):
    said_of = said(*described(count=count))
    assert said_of[3] == f"not known: asked about one group, the broker answered about {count}"
    assert said_of[:3] + said_of[4:] == ["allowed"] * 8


def test_what_a_probe_stumbles_over_costs_no_other(monkeypatch):
    reassigned, quorum, _, *others = answers(0)
    prober = Answered(reassigned, quorum, *others)
    monkeypatch.setattr(prober, "_fenced", lambda: int(None))
    answered = [permission.answer for permission in prober.permissions()]
    assert answered.pop(2).startswith(
        "not known: this program stumbled over what the broker answered (TypeError: "
    )
    assert answered == ["allowed"] * 8


@pytest.mark.parametrize("value", [None, "two", "", "-1", "2147483648"])
def test_a_min_isr_that_is_no_number_is_unknown(value):
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult(
        name="min.insync.replicas", value=value, synonyms=[]
    )
    of_topic = [
        result(error_code=0, error_message="", resource_type=2, resource_name="t", configs=[config])
    ]
    assert Answered(DescribeConfigsResponse(results=of_topic)).min_isr(["t"]) == MinIsr(silent=1)
    assert (
        Answered()
        .min_isr(["t"])
        .problem.startswith("this program stumbled over what the broker answered")
    )


def test_topics_whose_min_isr_is_an_error_are_counted_by_it():
    result = DescribeConfigsResponse.DescribeConfigsResult
    of_topics = [
        result(error_code=code, error_message="", resource_type=2, resource_name=name, configs=[])
        for name, code in (("a", 7), ("b", 7), ("denied", 29), ("gone", 3))
    ]
    found = Answered(DescribeConfigsResponse(results=of_topics)).min_isr(
        ["a", "b", "denied", "gone"]
    )
    assert found == MinIsr(errors={7: 2, 29: 1, 3: 1})
    assert (found.denied, found.unknown) == (
        1,
        "topics answered with error 7 (RequestTimedOutError): 2",
    )
