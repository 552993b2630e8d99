"""Answers of leaders: which records they have, which batches cannot be read, and where the next one
begins.
"""

import zlib
from typing import Any

import pytest

from metadata_source.logs.topic.batches import Answered, Unreadable, read_answers
from tests.support.record_batches import Batch, Record, batch_bytes
from tests.support.topic_batches import KEY, VALUE, batch, flipped, old


def told(answers: dict[int, bytes], skipping: tuple[int, ...] = ()) -> list[Any]:
    """Of records the offsets by partition; of what cannot be read the partition, and the offset
    after it.
    """
    found: list[Any] = []
    for each in read_answers(answers, skipping):
        if isinstance(each, Answered):
            offsets = each.records["offset"].to_pylist()
            found += zip(each.partitions.tolist(), offsets, strict=True)
        else:
            found.append(("old" if each.is_old else "bad", each.partition, each.after))
    return found


GOOD, MORE = batch(0, 2), batch(5)
BAD = flipped(batch(2, 3), -1)
LONG = flipped(batch(2, 3), 8)
"""Its length is more than there is."""
NO_LENGTH = BAD[:8] + b"\xff\xff\xff\xff" + BAD[12:]


@pytest.mark.parametrize(
    ("data", "skipping", "expected"),
    [
        pytest.param(GOOD + MORE, False, [(7, 0), (7, 1), (7, 5)], id="batches"),
        pytest.param(GOOD + MORE[:-1], False, [(7, 0), (7, 1)], id="one is cut off"),
        pytest.param(b"", False, [], id="nothing"),
        pytest.param(GOOD + BAD + MORE, False, [(7, 0), (7, 1), ("bad", 7, 5)], id="a bad one"),
        pytest.param(
            GOOD + BAD + MORE,
            True,
            [(7, 0), (7, 1), ("bad", 7, 5), (7, 5)],
            id="a bad one that is skipped",
        ),
        pytest.param(BAD, True, [("bad", 7, 5)], id="by its own last offset"),
        pytest.param(
            flipped(batch(2, 3), 26) + MORE, True, [("bad", 7, 5), (7, 5)], id="or the next one's"
        ),
        pytest.param(
            GOOD + NO_LENGTH + MORE,
            True,
            [(7, 0), (7, 1), ("bad", 7, None)],
            id="nobody can say where the next one begins",
        ),
        pytest.param(
            GOOD + bytes(7) + b"\2" + b"\0\0\0\x0d" + bytes(5),
            False,
            [(7, 0), (7, 1), ("bad", 7, None)],
            id="a length of no message, though it may be cut off",
        ),
        pytest.param(GOOD + LONG + MORE, True, [(7, 0), (7, 1)], id="it may be cut off"),
        pytest.param(BAD + batch(1), True, [("bad", 7, 5), (7, 1)], id="the next one is before it"),
        pytest.param(
            GOOD + old(2, 3) + MORE,
            False,
            [(7, 0), (7, 1), ("old", 7, 5), (7, 5)],
            id="messages of format 1 end nothing",
        ),
        pytest.param(
            old(2, 1, 0) + old(3, 2, 1) + MORE, False, [("old", 7, 5), (7, 5)], id="and are one"
        ),
    ],
)
def test_bytes_of_a_partition(data: bytes, *, skipping: bool, expected: list[Any]) -> None:
    assert told({7: data}, (7,) if skipping else ()) == expected


def test_a_partition_costs_no_other() -> None:
    answers = {3: GOOD + BAD + MORE, 1: GOOD + NO_LENGTH, 2: GOOD[:-1], 0: GOOD + MORE}
    assert told(answers, (3,)) == [
        *((3, 0), (3, 1), ("bad", 3, 5), (3, 5)),
        *((1, 0), (1, 1), ("bad", 1, None)),
        *((0, 0), (0, 1), (0, 5)),
    ]


def test_the_offset_after_the_last_batch_of_each_partition() -> None:
    """There may be no record with it: the last ones were compacted away."""
    compacted = batch_bytes(Batch(5, [Record(0, 0, KEY, VALUE)], last_offset_delta=8))
    (found,) = read_answers({3: GOOD + compacted, 1: GOOD})
    assert isinstance(found, Answered)
    assert found.after == {3: 14, 1: 2}


def test_producers_are_those_of_transactions() -> None:
    """Others have producers too, if they are idempotent."""
    record = [Record(0, 0, KEY, VALUE)]
    idempotent = batch_bytes(Batch(0, record, producer_id=9))
    transactional = batch_bytes(Batch(1, record, producer_id=8, transactional=True))
    (found,) = read_answers({0: idempotent + transactional})
    assert isinstance(found, Answered)
    assert found.producers.tolist() == [-1, 8]


def test_a_batch_whose_format_became_an_old_one_is_no_old_message() -> None:
    bad = bytearray(batch(2, 3))
    bad[16] = 1
    found = list(read_answers({0: batch(0, 2) + bytes(bad) + batch(5)}))
    assert [type(each) for each in found] == [Answered, Unreadable]
    assert found[1] == Unreadable(0, 5, "magic: 1, not 2")
    as_old = bytes(bad[:12]) + zlib.crc32(bytes(bad[16:])).to_bytes(4) + bytes(bad[16:])
    (_, found_old, *_) = read_answers({0: batch(0, 2) + as_old + batch(5)})
    assert isinstance(found_old, Unreadable)
    assert found_old.is_old
