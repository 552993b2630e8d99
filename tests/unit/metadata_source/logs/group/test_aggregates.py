"""Aggregates of offset commits: when commits of one partition are one, and what they come to."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from metadata_source.kafka_constants import LAST_MS
from metadata_source.logs.group.aggregates import (
    CommitKey,
    by_key,
    entry_structs,
    join,
    known_times,
    merge,
    no_aggregates,
    select,
)

NONE = -1
MOST = 2**63 - 1
COMMIT: dict[str, int] = {
    **dict.fromkeys(("key", "stretch", "falls", "fallen", "id_high", "id_low"), 0),
    "commits": 1,
    "gap_from_ms": NONE,
    "gap_to_ms": NONE,
    **dict.fromkeys(("removed_offset", "removed_ms", "producer"), NONE),
    "log_partition": 0,
}


def commit(offset: int, ms: int, committed: int, **more: int) -> dict[str, int]:
    ends = {f"{end}_offset": offset for end in ("from", "to")}
    ends |= {f"{end}_ms": ms for end in ("from", "to")}
    return COMMIT | ends | {"first_committed": committed, "last_committed": committed} | more


def removal(offset: int, ms: int, **more: int) -> dict[str, int]:
    none = commit(NONE, NONE, NONE) | {"commits": 0, "removed_offset": offset, "removed_ms": ms}
    return none | more


def columns(*rows: dict[str, int]) -> dict[str, Any]:
    names = no_aggregates()
    return {name: np.array([row[name] for row in rows], dtype=np.int64) for name in names}


def merged(*rows: dict[str, int]) -> list[dict[str, int]]:
    """What becomes of rows, each as it differs from a commit at offset 0 and time 0 of offset 5."""
    found = merge(columns(*rows))
    usual = commit(0, 0, 5)
    count = len(found["key"])
    return [
        {name: int(of[row]) for name, of in found.items() if int(of[row]) != usual[name]}
        for row in range(count)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([commit(0, 0, 5)], [{}], id="one"),
        pytest.param(
            [commit(0, 0, 5), commit(3, 7, 9)],
            [
                {
                    "commits": 2,
                    "to_offset": 3,
                    "to_ms": 7,
                    "last_committed": 9,
                    "gap_from_ms": 0,
                    "gap_to_ms": 7,
                }
            ],
            id="two are one, with the time between",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(3, 7, 2), commit(4, 8, 1)],
            [
                {
                    "commits": 3,
                    "to_offset": 4,
                    "to_ms": 8,
                    "last_committed": 1,
                    "gap_from_ms": 0,
                    "gap_to_ms": 7,
                    "falls": 2,
                    "fallen": 4,
                }
            ],
            id="offsets that fall",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, 7, 5), commit(2, 14, 5)],
            [{"commits": 3, "to_offset": 2, "to_ms": 14, "gap_from_ms": 0, "gap_to_ms": 7}],
            id="of two gaps of one length the first",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, 7, 5), commit(2, 15, 5)],
            [{"commits": 3, "to_offset": 2, "to_ms": 15, "gap_from_ms": 7, "gap_to_ms": 15}],
            id="the longer one",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, 7, 5, to_ms=20, commits=2, gap_from_ms=10, gap_to_ms=17)],
            [{"commits": 3, "to_offset": 1, "to_ms": 20, "gap_from_ms": 0, "gap_to_ms": 7}],
            id="a gap between is before one inside that is as long",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, 7, 5, to_ms=20, commits=2, gap_from_ms=10, gap_to_ms=18)],
            [{"commits": 3, "to_offset": 1, "to_ms": 20, "gap_from_ms": 10, "gap_to_ms": 18}],
            id="and a longer one inside counts",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, NONE, 5), commit(2, 9, 5)],
            [{"commits": 3, "to_offset": 2, "to_ms": 9}],
            id="no time, no gap",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, -9, 5)],
            [{"commits": 2, "to_offset": 1, "to_ms": -9, "gap_from_ms": 0, "gap_to_ms": -9}],
            id="clocks go back",
        ),
        pytest.param(
            [commit(0, 0, 5), removal(4, 9)],
            [{"removed_offset": 4, "removed_ms": 9}],
            id="a removal ends it",
        ),
        pytest.param(
            [removal(4, 9), commit(0, 0, 5)],
            [
                {
                    "commits": 0,
                    "from_offset": NONE,
                    "to_offset": NONE,
                    "from_ms": NONE,
                    "to_ms": NONE,
                    "first_committed": NONE,
                    "last_committed": NONE,
                    "removed_offset": 4,
                    "removed_ms": 9,
                },
                {},
            ],
            id="a commit after a removal is another one",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(0, 0, 5, key=1)], [{}, {"key": 1}], id="another partition"
        ),
        pytest.param(
            [commit(0, 0, 5), commit(0, 0, 5, stretch=1)],
            [{}, {"stretch": 1}],
            id="another stretch",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(0, 0, 5, id_high=1)], [{}, {"id_high": 1}], id="another topic"
        ),
        pytest.param(
            [commit(0, 0, 5), commit(0, 0, 5, id_low=1)], [{}, {"id_low": 1}], id="by its id"
        ),
        pytest.param(
            [commit(0, 0, 5, id_low=1), removal(4, 9)],
            [{"id_low": 1, "removed_offset": 4, "removed_ms": 9}],
            id="a removal has no topic id",
        ),
        pytest.param(
            [commit(0, 0, 5, falls=1, fallen=MOST), commit(1, 0, 2, falls=1, fallen=7)],
            [
                {
                    "commits": 2,
                    "to_offset": 1,
                    "last_committed": 2,
                    "gap_from_ms": 0,
                    "gap_to_ms": 0,
                    "falls": 3,
                    "fallen": MOST,
                }
            ],
            id="what fell has a largest sum",
        ),
        pytest.param(
            [commit(0, 0, 5), commit(1, 0, MOST), commit(2, 0, 0, falls=1, fallen=9)],
            [
                {
                    "commits": 3,
                    "to_offset": 2,
                    "last_committed": 0,
                    "gap_from_ms": 0,
                    "gap_to_ms": 0,
                    "falls": 2,
                    "fallen": MOST,
                }
            ],
            id="also of one fall and those inside",
        ),
    ],
)
def test_aggregates_that_follow_each_other(
    rows: list[dict[str, int]], expected: list[dict[str, int]]
) -> None:
    assert merged(*rows) == expected


def test_aggregates_by_key_keep_their_order() -> None:
    rows = columns(*(commit(at, 0, 5, key=key) for at, key in enumerate((2, 1, 2, 1, 65_537))))
    ordered = by_key(rows)
    assert ordered["key"].tolist() == [1, 1, 2, 2, 65_537]
    assert ordered["from_offset"].tolist() == [1, 3, 0, 2, 4]
    assert by_key(no_aggregates())["key"].tolist() == []


def test_rows_of_one_come_before_those_of_another() -> None:
    one, other = columns(commit(0, 0, 5)), columns(commit(1, 0, 5), commit(2, 0, 5))
    both = join(one, other)
    assert both["from_offset"].tolist() == [0, 1, 2]
    assert select(both, np.array([2, 0]))["to_offset"].tolist() == [2, 0]
    assert join(no_aggregates(), one)["from_offset"].tolist() == [0]


@pytest.mark.parametrize(
    ("ms", "known"), [(-1, -1), (-5, -1), (0, 0), (LAST_MS, LAST_MS), (LAST_MS + 1, -1)]
)
def test_times_that_spark_has_not_are_none(ms: int, known: int) -> None:
    assert known_times(np.array([ms])).tolist() == [known]


def test_elements_of_bronze() -> None:
    rows = columns(commit(3, 7, 9, id_low=1), removal(4, 9))
    found: list[dict[str, Any]] = entry_structs(
        rows, [CommitKey(0, "t", 2), CommitKey(0, "u", 3)]
    ).to_pylist()
    one, gone = found
    assert (one["topic"], one["partition"], one["from_offset"], one["removed_offset"]) == (
        "t",
        2,
        3,
        None,
    )
    assert one["topic_id"] is not None
    assert pa.scalar(one["from_timestamp"]).cast(pa.timestamp("ms", "UTC")).value == 7
    assert (one["gap_from"], one["removed_timestamp"], one["falls"]) == (None, None, 0)
    assert (gone["commits"], gone["removed_offset"], gone["topic_id"]) == (0, 4, None)
    for name in ("from_offset", "to_offset", "first_committed", "last_committed", "to_timestamp"):
        assert gone[name] is None
