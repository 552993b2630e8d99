"""What DumpLogSegments prints of the coordinators' log becomes records and transactions."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from truth.dump import TruthError
from truth.model.states import EPOCH
from truth.transactions.logged import Record, logged, records

START = 1_795_912_009_300


def printed(offset: int, epoch: int, of: str, state: str, **more: Any) -> Iterator[str]:
    """The two lines of a batch of one record."""
    value = {
        "producerId": 1,
        "producerEpoch": 0,
        "transactionTimeoutMs": 6000,
        "transactionStatus": state,
        "transactionPartitions": None,
        "transactionLastUpdateTimestampMs": START + offset,
        "transactionStartTimestampMs": START,
    } | more
    key = json.dumps({"type": "0", "data": {"transactionalId": of}}, separators=(",", ":"))
    payload = json.dumps({"version": "0", "data": value}, separators=(",", ":"))
    yield (
        f"baseOffset: {offset} lastOffset: {offset} count: 1 baseSequence: -1 lastSequence: -1 "
        f"producerId: -1 producerEpoch: -1 partitionLeaderEpoch: {epoch} isTransactional: false "
        f"isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: {START} "
        "size: 134 magic: 2 compresscodec: none crc: 163408312 isvalid: true"
    )
    yield (
        f"| offset: {offset} CreateTime: {START + 10 * offset} keySize: 28 valueSize: 37 "
        f"sequence: -1 headerKeys: [] key: {key} payload: {payload}"
    )


PLACES = [{"topic": "orders", "partitionIds": [0, 2]}]
LINES = [
    "Dumping /data/__transaction_state-2/00000000000000000000.log",
    "Log starting offset: 0",
    *printed(0, 0, "app-1", "Empty", transactionStartTimestampMs=-1),
    *printed(1, 0, "app-1", "Ongoing", transactionPartitions=PLACES),
    *printed(2, 1, "app-1", "PrepareCommit", transactionPartitions=PLACES),
    *printed(3, 1, "app-1", "CompleteCommit"),
    *printed(4, 1, "app-1", "Ongoing", transactionStartTimestampMs=START + 4),
    *printed(5, 1, "app-1", "PrepareAbort", transactionStartTimestampMs=START + 4),
    *printed(6, 1, "app-2", "Ongoing", transactionStartTimestampMs=START + 6),
    *printed(7, 1, "app-1", "CompleteAbort", transactionStartTimestampMs=START + 4),
    *printed(8, 1, "app-1", "Empty", transactionStartTimestampMs=-1, clientTransactionVersion=2),
]


@pytest.fixture
def log() -> list[Record]:
    return list(records(2, LINES))


def test_records(log: list[Record]) -> None:
    assert [(each.offset, each.leader_epoch) for each in log[:3]] == [(0, 0), (1, 0), (2, 1)]
    first, second = log[:2]
    assert (first.started_at, first.places, first.client_version) == (None, frozenset(), 0)
    assert second.started_at == EPOCH + timedelta(milliseconds=START)
    assert second.places == {("orders", 0), ("orders", 2)}
    assert log[-1].client_version == 2


def test_transactions(log: list[Record]) -> None:
    one, two, three = logged(log).transactions
    assert [len(each.records) for each in (one, two, three)] == [3, 3, 1]
    assert [each.outcome for each in (one, two, three)] == ["committed", "aborted", None]
    assert one.initialized_at is None
    assert two.initialized_at == log[-1].updated_at
    assert one.places == {("orders", 0), ("orders", 2)}
    assert (one.prepared_at, one.completed_at) == (log[2].updated_at, log[3].written_at)
    assert log[3].written_at - log[3].updated_at == timedelta(milliseconds=27)
    assert one.state_at(log[1].written_at) == "Ongoing"
    assert one.state_at(log[0].written_at) is None


def test_what_is_not_decoded_is_an_error() -> None:
    with pytest.raises(TruthError, match=r"not decoded: \| offset: 9"):
        list(records(2, [*LINES, "| offset: 9 CreateTime: 1 key: x payload: y"]))
