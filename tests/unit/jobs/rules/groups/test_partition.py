"""Where a group is kept, against what Java says."""

import pytest

from jobs.rules.groups.partition import log_partition


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        # What Java printed.
        ("orders", 31),
        ("заказы-🐘", 21),
        ("my-group-7", 10),
        ("console-consumer-12345", 6),
        # By String.hashCode.
        ("", 0),
        ("a", 97 % 50),
        pytest.param("\ud83d", 0xD83D % 50, id="half a pair"),
        pytest.param("polygenelubricants", 0, id="the smallest number, which has no positive one"),
        pytest.param("🐘", (0xD83D * 31 + 0xDC18) % 50, id="two UTF-16 units"),
    ],
)
def test_a_group_is_in_the_partition_that_java_says(group_id: str, partition: int) -> None:
    assert log_partition(group_id, 50) == partition
