"""What is counted of a span of the controllers' log, and which records have no row."""

from typing import Any

import pyarrow as pa
import pytest

from metadata_source.logs.cluster.positions import SnapshotId
from metadata_source.logs.cluster.rows import Read, are_no_ops, read_rows, same_in
from metadata_source.protocol.record_batches import read_batches
from tests.support.controllers_log import shown
from tests.support.quorum import ACL, NEWER, NO_OP, SCRAM, leader_change, topic
from tests.support.record_batches import Batch, Record, batch_bytes

BEGAN = 1_700_000_000_000
SAME = {"cluster": "c", "cluster_id": "id"}
TOPIC = topic("a")


def records(*values: bytes, first: int = 0, times: tuple[int, ...] = (), **more: Any) -> Any:
    """Records of one batch, a second apart unless their times are said."""
    written = [
        Record(at, times[at] if times else 1_000 * at, more.get("key"), value)
        for at, value in enumerate(values)
    ]
    control = "key" in more
    batch = Batch(first, written, 5, base_timestamp=BEGAN, control=control)
    return read_batches(batch_bytes(batch)).records


@pytest.mark.parametrize(
    ("values", "counts", "left"),
    [
        pytest.param((TOPIC, TOPIC), (2, 0, 0), [0, 1], id="records"),
        pytest.param((NO_OP, TOPIC), (1, 1, 0), [1], id="a NoOpRecord"),
        pytest.param((SCRAM, TOPIC), (1, 0, 1), [1], id="a record with secrets is counted"),
        pytest.param((ACL, TOPIC), (2, 0, 0), [0, 1], id="an ACL has a row"),
        pytest.param((NO_OP, SCRAM, NO_OP), (0, 2, 1), [], id="no rows"),
        pytest.param((NEWER,), (1, 0, 0), [0], id="an unknown type has a row that says so"),
    ],
)
def test_records_are_counted(
    values: tuple[bytes, ...], counts: tuple[int, int, int], left: list[int]
) -> None:
    read = Read(0)
    decoded = read.take(records(*values))
    assert (read.records, read.no_ops, read.counted) == counts
    assert decoded["offset"].to_pylist() == left
    assert (read.next, read.last_epoch) == (len(values), 5)
    assert read.last_ms == BEGAN + 1_000 * (len(values) - 1)


def test_of_an_acl_there_is_the_type_and_in_a_snapshot_it_is_counted() -> None:
    (row,) = Read(0).take(records(ACL)).to_pylist()
    assert "hunter2" not in str(row)
    assert (row["type"], row["name"]) == (18, "AccessControlEntryRecord")
    read = Read(0, of_snapshot=True)
    assert read.take(records(ACL, TOPIC))["offset"].to_pylist() == [1]
    assert (read.records, read.no_ops, read.counted) == (1, 0, 1)


def test_a_control_record_is_a_record_whatever_its_number() -> None:
    """A control record has types of its own, and those of records mean others."""
    read = Read(0)
    read.take(records(leader_change(1), key=b"\0\0\0\2"))
    assert (read.records, read.no_ops, read.counted) == (1, 0, 0)


@pytest.mark.parametrize(
    ("before", "times", "silence"),
    [
        pytest.param((), (0,), None, id="one record"),
        pytest.param((), (0, 3, 4), (0, 3), id="the longest time between two"),
        pytest.param((), (0, 3, 6), (0, 3), id="the first of two that are as long"),
        pytest.param((0,), (9, 10), (0, 9), id="it may begin before the span"),
        pytest.param((5,), (0, 1), (0, 1), id="clocks of controllers differ"),
    ],
)
def test_the_longest_silence(
    before: tuple[int, ...], times: tuple[int, ...], silence: tuple[int, int] | None
) -> None:
    read = Read(1)
    if before:
        read.hear(records(NO_OP, times=before))
    read.take(records(*[TOPIC] * len(times), first=1, times=times))
    assert read.silence == (silence and (BEGAN + silence[0], BEGAN + silence[1]))


def test_silences_of_several_answers_are_one() -> None:
    read = Read(0)
    for first, times in ((0, (0, 7)), (2, (9, 13)), (4, (20, 21))):
        read.take(records(TOPIC, TOPIC, first=first, times=times))
    assert read.silence == (BEGAN, BEGAN + 7)
    read.take(records(TOPIC, first=6, times=(29,)))
    assert read.silence == (BEGAN + 21, BEGAN + 29)


def test_what_was_read_is_one_row_if_anything_was() -> None:
    read = Read(7)
    assert shown(read_rows(SAME, read)) == []
    read.take(records(TOPIC, NO_OP, first=7))
    (row,) = shown(read_rows(SAME, read))
    assert (row["went"], row["offset"], row["next_offset"]) == ("read", 7, 9)
    assert row["silence_from"] < row["silence_to"] == row["timestamp"]
    # Records of a snapshot were written at one time: nobody was silent.
    (row,) = shown(read_rows(SAME | same_in(SnapshotId(9, 4)), read))
    assert (row["snapshot_offset"], row["snapshot_epoch"]) == (9, 4)
    assert not {"silence_from", "silence_to"} & row.keys()


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (records(NO_OP, NO_OP), True),
        (records(NO_OP, TOPIC), False),
        (records(SCRAM), False),
        # By its value alone a control record could be one.
        (records(NO_OP, key=b"\0\0\0\2"), False),
    ],
)
def test_only_no_op_records_are_no_news(found: pa.RecordBatch, *, expected: bool) -> None:
    assert are_no_ops(found) == expected
