"""Record batches of the controllers' log that come in pieces, or of which one is bad."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata_source.errors import ProtocolError
from metadata_source.logs.cluster.batches import WholeBatches, between, up_to_bad
from metadata_source.protocol.record_batches import read_batches
from tests.support.record_batches import Batch, Record, batch_bytes


def batch(offset: int, count: int = 1) -> bytes:
    return batch_bytes(Batch(offset, [Record(at, value=b"v") for at in range(count)]))


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


FOUR = [batch(0), batch(1, 3), batch(4), batch(5, 2)]
WHOLE = b"".join(FOUR)


def offsets(found: list[object]) -> list[int]:
    return [offset for each in found for offset in each["offset"].to_pylist()]  # type: ignore[index]


@given(st.sets(st.integers(0, len(WHOLE))), st.integers(0, len(WHOLE)))
def test_batches_are_whole_however_they_are_cut(cuts: set[int], end: int) -> None:
    edges = sorted({0, *(cut for cut in cuts if cut < end), end})
    pieces = [WHOLE[one:other] for one, other in pairwise(edges)]
    read = WholeBatches(pieces)
    sizes = [len(b"".join(FOUR[: count + 1])) for count in range(4)]
    counts = [1, 4, 5, 7]
    done = max((size for size in sizes if size <= end), default=0)
    assert offsets(list(read)) == list(range(counts[sizes.index(done)] if done else 0))
    assert read.left == end - done


@pytest.mark.parametrize("bad", range(4))
def test_records_up_to_the_first_bad_batch(bad: int) -> None:
    data = [flipped(each) if at == bad else each for at, each in enumerate(FOUR)]
    found, problem = up_to_bad(b"".join(data))
    assert offsets(found) == list(range([0, 1, 4, 5][bad]))
    assert problem is not None
    assert problem.path == "crc"


@pytest.mark.parametrize("size", [0, 9, len(FOUR[0]), len(WHOLE) - 1, len(WHOLE)])
def test_where_none_is_bad_nothing_is_wrong(size: int) -> None:
    found, problem = up_to_bad(WHOLE[:size])
    assert problem is None
    assert offsets(found) == offsets(list(WholeBatches([WHOLE[:size]])))


def test_a_bad_batch_ends_the_pieces() -> None:
    with pytest.raises(ProtocolError, match="crc"):
        list(WholeBatches([FOUR[0], flipped(FOUR[1])]))


@pytest.mark.parametrize(
    ("start", "end", "left"), [(0, 9, [1, 2, 3]), (1, 3, [1, 2]), (2, 2, []), (3, 4, [3])]
)
def test_records_between_two_offsets(start: int, end: int, left: list[int]) -> None:
    assert offsets([between(read_batches(FOUR[1]).records, start, end)]) == left
