"""Keys and values of offset commits: which are wrong, and what the others say."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata_source.protocol.columnar import FEWEST
from metadata_source.protocol.offset_commits import are_commits, read_keys, read_values
from tests.support.examples import examples
from tests.support.for_each import for_each
from tests.support.mutations import mutated, mutations
from tests.support.offset_commits import IDS, commit_key, commit_value

quickly = settings(
    max_examples=examples(60), database=None, suppress_health_check=[HealthCheck.too_slow]
)
ID = bytes(15) + b"\1"


@pytest.mark.parametrize(
    ("key", "is_commit"),
    [
        (commit_key("g", "t", 0, kind=0), True),
        (commit_key("g", "t", 0, kind=1), True),
        (commit_key("g", "t", 0, kind=2), False),
        (b"\0\1", True),
        (b"\1", False),
        (b"", False),
        (None, False),
        (b"\xff\xff", False),
    ],
)
def test_commits_are_known_by_the_type_of_their_keys(key: bytes | None, *, is_commit: bool) -> None:
    assert are_commits(pa.array([key], pa.binary())).tolist() == [is_commit]


@pytest.mark.parametrize("count", [1, FEWEST])
def test_keys(count: int) -> None:
    good = commit_key("grüße", "t", 7)
    keys = [good, good[:-1], good + b"\0", b"\0\1\0\1g\xff\xff\0\0\0\0"] * count
    expected = [("grüße", "t", 7), None, None, None] * count
    assert read_keys(pa.array(keys, pa.binary())) == expected


@for_each("count", [1, FEWEST])
@pytest.mark.parametrize(
    ("value", "offset", "topic_id", "is_wrong"),
    [
        *((commit_value(version, 5), 5, None, False) for version in range(5)),
        (commit_value(4, 5, topic_id=ID), 5, ID, False),
        (commit_value(3, 0), 0, None, False),
        (commit_value(3, 2**62, "m" * 300), 2**62, None, False),
        # A negative offset is none.
        (commit_value(3, -1), -1, None, True),
        (commit_value(3, 5)[:-1], -1, None, True),
        (commit_value(3, 5) + b"\0", -1, None, True),
        (b"\0\5" + commit_value(4, 5)[2:], -1, None, True),
        (b"\0", -1, None, True),
        (b"", -1, None, True),
        (None, -1, None, False),
    ],
)
def test_values(
    value: bytes | None, offset: int, topic_id: bytes | None, *, is_wrong: bool, count: int
) -> None:
    found = read_values(pa.array([commit_value(1, 9), *[value] * count], pa.binary()))
    assert found.offsets.tolist() == [9, *[offset] * count]
    assert found.is_wrong.tolist() == [False, *[is_wrong] * count]
    assert found.is_removal.tolist() == [False, *[value is None] * count]
    assert {row.tobytes() for row in found.topic_ids[1:]} == {topic_id or bytes(16)}


@quickly
@given(
    st.integers(0, 4), st.integers(0, 2**62), st.sampled_from(IDS), mutations, st.floats(0, 0.999)
)
def test_values_with_other_bytes_are_other_values_or_wrong(
    version: int, offset: int, topic_id: bytes | None, changes: Any, share: float
) -> None:
    whole = commit_value(version, offset, "metadata", topic_id)
    values = [whole] * 9 + [None, mutated(whole, changes), whole[: int(share * len(whole))]]
    found = read_values(pa.array(values, pa.binary()))
    assert found.offsets[:9].tolist() == [offset] * 9
    assert not found.is_wrong[:10].any()
    assert found.is_wrong[11]
    assert found.is_removal.tolist() == [value is None for value in values]
    assert found.topic_ids[0].tobytes() == (topic_id if topic_id and version == 4 else bytes(16))
    assert (found.offsets[found.is_wrong] < 0).all()
    assert (found.offsets[~found.is_wrong & ~found.is_removal] >= 0).all()
