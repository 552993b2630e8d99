"""A transaction that hangs (KIP-664): records come to a partition, and no coordinator knows it."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from metadata_source.asking import Asking
from metadata_source.enrichment import subject
from metadata_source.options import parse
from metadata_source.poller import Poller
from metadata_source.questions import Question
from truth.dump import TruthError
from truth.transactions.written import Hanging, Place

PRODUCER_ID: Final = 2**40
"""None that a coordinator has given."""
VERIFIED: Final = "transaction.partition.verification.enable"
"""While it is false, brokers take records of a transaction that its coordinator does not know."""
_LAST_VERSION: Final = 11
"""Of Produce, in which a client says to coordinators itself what it adds (before KIP-890)."""
_SECONDS: Final = 30.0


@contextmanager
def unverified(admin: AdminClient, brokers: int) -> Iterator[None]:
    """Brokers take records of a transaction that its coordinator does not know, as before 3.6."""

    def alter(value: str) -> None:
        entry = ConfigEntry(VERIFIED, value, incremental_operation=AlterConfigOpType.SET)
        for number in range(1, brokers + 1):
            broker = ConfigResource(ResourceType.BROKER, str(number), incremental_configs=[entry])
            admin.incremental_alter_configs([broker])[broker].result(_SECONDS)

    alter("false")
    try:
        yield
    finally:
        alter("true")


def hang(servers: str, place: Place) -> Hanging:
    """Write a batch that nothing ends. Raises TruthError if the broker does not take it."""
    options = parse({"kafka.bootstrap.servers": servers, "requestTimeout": "8s"}, "batch")
    deadline = time.monotonic() + _SECONDS
    with (
        Poller(options.clusters[0], options.topic_filter, options.request_timeout_ms) as poller,
        closing(poller.asking(8_000)) as asking,
    ):
        while error := write_alone(poller, asking, place):
            if time.monotonic() > deadline:
                raise TruthError(f"the batch of {place} that hangs was refused: error {error}")
            time.sleep(0.2)
    return Hanging(place, PRODUCER_ID, 0, datetime.now(UTC))


def write_alone(poller: Poller, asking: Asking, place: Place) -> int:
    """Write a batch of a transaction that no coordinator knows; returns Kafka's error."""
    topic, number = place
    builder = DefaultRecordBatchBuilder(2, 0, True, PRODUCER_ID, 0, 0, 1 << 16)
    # Retention removes an older record, and the transaction with it.
    builder.append(0, int(time.time() * 1000), b"k", b"v", [])
    data = ProduceRequest.TopicProduceData
    partition = data.PartitionProduceData(index=number, records=bytes(builder.build()))
    question = Question(
        ProduceRequest,
        {
            "transactional_id": f"alone-{topic}",
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [data(name=topic, partition_data=[partition])],
        },
        lowest=3,
        highest=_LAST_VERSION,
    )
    metadata = poller.poll().metadata
    if metadata is None:
        raise TruthError("no broker answers")
    about = subject(("transactions",), metadata)
    assert about.offsets is not None  # noqa: S101 - it is asked with transactions
    leaders = {
        (row["topic"], row["partition"]): row["leader"] for row in about.offsets.leaders.to_pylist()
    }
    leader = next(each for each in about.brokers if each.broker_id == leaders[place])
    response = asking.requester.ask(leader.address, question, deadline=time.monotonic() + _SECONDS)
    return int(response.responses[0].partition_responses[0].error_code)
