"""Replicas and ISRs compared as sets."""

import pyarrow as pa
import pytest

from metadata_source.members import lack_replica


@pytest.mark.parametrize(
    ("replicas", "isr", "lacks"),
    [
        ([1, 2], [2, 1], False),
        ([1, 2], [1], True),
        # As large, and another broker.
        ([1, 2], [1, 3], True),
        ([1], [1, 2], False),
        ([], [], False),
        ([1], None, True),
        (None, [1], False),
    ],
)
def test_an_isr_lacks_a_replica_that_is_not_in_it(replicas, isr, lacks):
    """Whatever the partitions before and after it have."""
    rows = [([1, 2], [1, 2]), (replicas, isr), ([3], [])]
    lists = pa.list_(pa.int32())
    table = pa.table(
        {
            "replicas": pa.array([each for each, _ in rows], lists),
            "isr": pa.array([each for _, each in rows], lists),
        }
    )
    assert lack_replica(table).tolist() == [False, lacks, True]
