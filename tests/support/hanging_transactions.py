"""A transaction that hangs: its records come without its coordinator."""

import time

from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from metadata_source.asking import Asking
from metadata_source.enrichment import subject
from metadata_source.poller import Poller
from metadata_source.questions import Question

PRODUCER_ID = 2**40
VERIFIED = "transaction.partition.verification.enable"
"""While it is false brokers take records of a transaction that its coordinator does not know, as
before 3.6.
"""
LAST_VERSION = 11
"""Of Produce, in which a client says to coordinators itself what it adds (before KIP-890)."""


def write_alone(poller: Poller, asking: Asking, topic: str, partition: int) -> int:
    """Write a batch of a transaction that no coordinator is told of; returns Kafka's error."""
    builder = DefaultRecordBatchBuilder(2, 0, True, PRODUCER_ID, 0, 0, 1 << 16)
    # Retention removes an older record, and the transaction with it.
    builder.append(0, int(time.time() * 1000), b"k", b"v", [])
    data = ProduceRequest.TopicProduceData
    written = data.PartitionProduceData(index=partition, records=bytes(builder.build()))
    question = Question(
        ProduceRequest,
        {
            "transactional_id": f"{topic}-alone",
            "acks": -1,
            "timeout_ms": 10_000,
            "topic_data": [data(name=topic, partition_data=[written])],
        },
        lowest=3,
        highest=LAST_VERSION,
    )
    metadata = poller.poll().metadata
    assert metadata is not None
    about = subject(("transactions",), metadata)
    assert about.offsets is not None
    leaders = {
        (row["topic"], row["partition"]): row["leader"] for row in about.offsets.leaders.to_pylist()
    }
    leader = next(each for each in about.brokers if each.broker_id == leaders[topic, partition])
    response = asking.requester.ask(leader.address, question, deadline=time.monotonic() + 30)
    return int(response.responses[0].partition_responses[0].error_code)
