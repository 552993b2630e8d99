"""What is asked of one topic, as brokers of each version get it."""

from types import SimpleNamespace
from typing import Any

import pytest

from metadata_source.errors import PollError
from metadata_source.protocol.dicts import read_values
from metadata_source.protocol.metadata import NO_UUID
from metadata_source.protocol.spec import METADATA_REQUEST, METADATA_RESPONSE
from metadata_source.protocol.writing import write_message
from metadata_source.questions import TopicQuestion, check
from tests.support.for_each import for_each

TOPIC = "__consumer_offsets"
FIRST_OF_KAFKA_2_8 = 10


def answer(version: int, *names: str) -> bytes:
    partition = {
        "error_code": 0,
        "partition_index": 0,
        "leader_id": 1,
        "leader_epoch": 7,
        "replica_nodes": [1],
        "isr_nodes": [1],
        "offline_replicas": [],
    }
    topics = [
        {
            "error_code": 0,
            "name": name,
            "topic_id": NO_UUID,
            "is_internal": True,
            "partitions": [partition],
            "topic_authorized_operations": 8,
        }
        for name in names
    ]
    values = {
        "throttle_time_ms": 5,
        "brokers": [{"node_id": 1, "host": "one", "port": 9092, "rack": None}],
        "cluster_id": "id",
        "controller_id": 1,
        "topics": topics,
        "cluster_authorized_operations": 0,
        "error_code": 0,
    }
    return write_message(METADATA_RESPONSE, version, values)


@for_each("version", range(METADATA_REQUEST.last_version + 1))
def test_a_broker_that_would_create_the_topic_is_not_asked_for_it_by_name(version: int) -> None:
    """Up to 2.7 a broker creates an internal topic whatever `allow_auto_topic_creation` says."""
    sent: list[dict[str, Any]] = []

    def request(api_key: int, version: int, body: bytes, **_: object) -> Any:
        sent.append(read_values(body, METADATA_REQUEST, version))
        return SimpleNamespace(body=answer(version, "another", TOPIC, "a third"))

    broker: Any = SimpleNamespace(
        request=request, address=("one", 9092), api_versions={3: (0, version)}
    )
    metadata = TopicQuestion(TOPIC).ask(broker, 0.0)
    (fields,) = sent
    everything = [] if version == 0 else None
    assert [each["name"] for each in fields["topics"] or []] == (
        [TOPIC] if version >= FIRST_OF_KAFKA_2_8 else []
    )
    assert version >= FIRST_OF_KAFKA_2_8 or fields["topics"] == everything
    assert fields["allow_auto_topic_creation"] is (False if version >= 4 else None)
    assert fields["include_topic_authorized_operations"] is (True if version >= 8 else None)
    assert (
        metadata.topics["topic"].to_pylist() == metadata.partitions["topic"].to_pylist() == [TOPIC]
    )
    assert metadata.brokers.num_rows == 1


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (15, "CoordinatorNotAvailableError"),
        (129, "RebootstrapRequiredError"),
        (999, "UnrecognizedBrokerError"),
    ],
)
def test_an_error_is_told_by_its_number_and_its_name(code: int, name: str) -> None:
    with pytest.raises(PollError, match=rf"error {code} \({name}\)$"):
        check(code)
