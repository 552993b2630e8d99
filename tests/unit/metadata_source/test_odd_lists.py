"""A broker is twice in one list of a partition: that list is unknown, and all else that the answer
tells is history.
"""

from typing import Any

import pyarrow as pa
import pytest

from kafka_metadata_history.check import effective
from metadata_source.check import ClusterState, report
from metadata_source.poller import Poll
from metadata_source.protocol.metadata import ClusterMetadata
from tests.support.made_histories import P, answered, history, named, polled, rows

BROKERS = named(1, 2, 3)
USUAL = answered(BROKERS, "c0", t=[P(1, 5), P(2, 5)])
ODD_ISR = answered(BROKERS, "c0", t=[P(1, 5, isr=(1, 2, 2)), P(2, 5)])
MOVED = answered(BROKERS, "c0", t=[P(2, 6), P(2, 5, isr=(2, 3))])
every_round = pytest.mark.parametrize("each", [False, True])


def partitions(made: Any, number: int) -> list[tuple[Any, ...]]:
    columns = ("leader", "leader_epoch", "replicas", "isr", "offline_replicas")
    of_number = [
        row for row in rows(made, "silver.partition_snapshots") if row["partition"] == number
    ]
    assert [row["error_code"] for row in of_number] == [0] * len(of_number)
    assert [row["end_reason"] for row in of_number] == [None] * len(of_number)
    lists = [
        [row[name] and [*row[name]] if name in columns[2:] else row[name] for name in columns]
        for row in of_number
    ]
    return [tuple(each) for each in lists]


@every_round
def test_an_isr_with_a_broker_twice_is_unknown_for_as_long_as_it_is_answered(each: bool) -> None:
    made = history(
        "kafka",
        polled(0, USUAL),
        polled(1, ODD_ISR),
        polled(2, ODD_ISR),
        polled(3, MOVED),
        each=each,
    )
    all_three = [1, 2, 3]
    assert partitions(made, 0) == [
        (1, 5, all_three, all_three, []),
        (1, 5, all_three, None, []),
        (2, 6, all_three, all_three, []),
    ]
    # The answers still tell the rest: the other partition's ISR, and who leads this one.
    assert partitions(made, 1) == [(2, 5, all_three, all_three, []), (2, 5, all_three, [2, 3], [])]
    changes = [
        (row["partition"], row["broker_id"], row["change"])
        for row in rows(made, "gold.isr_changes")
    ]
    assert changes == [(1, 1, "left")]
    (moved,) = rows(made, "gold.leader_changes")
    assert [moved[name] for name in ("partition", "prev_leader", "leader", "changes_min")] == [
        0,
        1,
        2,
        1,
    ]
    assert len(rows(made, "silver.topic_snapshots")) == 1


@every_round
def test_a_first_answer_with_one_is_history_too(each: bool) -> None:
    made = history("kafka", polled(0, ODD_ISR), polled(1, USUAL), each=each)
    assert partitions(made, 0) == [(1, 5, [1, 2, 3], None, []), (1, 5, [1, 2, 3], [1, 2, 3], [])]
    assert partitions(made, 1) == [(2, 5, [1, 2, 3], [1, 2, 3], [])]
    assert not rows(made, "gold.isr_changes")


@every_round
@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (P(1, 5, replicas=(1, 2, 2), isr=(1, 2)), (1, 5, None, None, None)),
        (P(1, 5, offline=(3, 3), isr=(1, 2)), (1, 5, [1, 2, 3], [1, 2], None)),
        (P(1, 5, offline=(-3,), isr=(1, 2)), (1, 5, [1, 2, 3], [1, 2], None)),
        (P(1, 5, replicas=(1, -5), isr=(1, 2)), (1, 5, None, None, None)),
        (P(1, 5, isr=(1, -1)), (1, 5, [1, 2, 3], None, [])),
    ],
)
def test_of_replicas_and_offline_replicas_too(each: bool, odd: P, told: tuple[Any, ...]) -> None:
    made = history(
        "kafka", polled(0, USUAL), polled(1, answered(BROKERS, "c0", t=[odd, P(2, 5)])), each=each
    )
    assert partitions(made, 0)[1:] == [told]
    assert partitions(made, 1) == [(2, 5, [1, 2, 3], [1, 2, 3], [])]


NEGATIVE_ID = answered(BROKERS, "c0", t=[P(1, 5, replicas=(1, -5)), P(2, 5)])


@pytest.mark.parametrize(("metadata", "version"), [ODD_ISR, NEGATIVE_ID], ids=["twice", "negative"])
def test_check_warns_of_it(metadata: ClusterMetadata, version: int) -> None:
    poll = Poll(latency_ms=1.0, response_bytes=9, api_version=version, broker="broker-1:9092")
    told = "\n".join(
        report(ClusterState(poll, metadata, pa.nulls(1, pa.int32()), effective, kind="kafka"))
    )
    assert (
        "warning: 1 partition: a broker is listed twice, or has a negative id, in the replicas, "
        "the ISR"
    ) in told
