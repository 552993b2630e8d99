"""Records that an unclean election has lost, by the ends of its log: the question, in DuckDB."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kafka_metadata_history.answers.questions import text_of
from schemas import bronze, gold, silver
from tests.support.duckdb_lake import asking
from tests.support.for_each import for_each
from tests.support.incident import CLUSTER, at
from tests.support.sums_of_time import poll, window

PLACE = {"topic": "orders", "partition": 0}
IN_SYNC_UNTIL = 40
"""Broker 2 left the ISR between then and 50 s, and was elected between 100 s and 110 s."""
Ends = Mapping[float, int]
"""When the end of the log was read, within a second, and the end."""


def election(began: tuple[float, float], **more: Any) -> dict[str, Any]:
    after, before = began
    of = {"id": f"at {before}", "began_after": at(after), "began_before": at(before)}
    told = {"prev_leader": -1, "leader": 2, "unclean": "proven", "reason": "recovery"}
    return CLUSTER | PLACE | of | told | more


def ends_read(ends: Ends, of: int = 0) -> dict[str, Any]:
    offsets = [
        PLACE
        | {"partition": of, "group_id": "billing", "log_end": end}
        | {"ends_read_after": at(seconds - 1), "ends_read_before": at(seconds)}
        for seconds, end in ends.items()
    ]
    told = {"record": "offsets", "day": at(0).date(), "poll_id": poll(0)}  # type: ignore[union-attr]
    return CLUSTER | told | {"offsets": offsets}


def isr(since: float, last_seen: float | None, isr: Sequence[int]) -> dict[str, Any]:
    until = {} if last_seen is None else {"last_seen_at": at(last_seen), "valid_to": at(last_seen)}
    began = {"first_poll": poll(since), "valid_from": at(since)}
    return CLUSTER | PLACE | began | until | {"isr": [*isr], "replicas": [1, 2]}


def lost(*read: Mapping[str, Any], more: Sequence[dict[str, Any]] = ()) -> list[tuple[Any, Any]]:
    """Of each election, at least and at most."""
    rows = {
        gold.LEADER_CHANGES: [election((100, 110)), *more],
        silver.PARTITION_SNAPSHOTS: [
            isr(0, IN_SYNC_UNTIL, [1, 2]),
            isr(50, 109, [1]),
            isr(110, None, [2]),
        ],
        bronze.METADATA_POLLS: [dict(each) for each in read],
    }
    with asking(rows) as ask:
        found = ask(text_of("unclean_elections"), window(1000))
    return [(row["known_lost_min"], row["known_lost_max"]) for row in found]


CASES: Mapping[str, tuple[Ends, tuple[int | None, int | None]]] = {
    "all ends are known": ({40: 500, 100: 900, 111: 600}, (300, 400)),
    "the last ones before count, and the first one after": (
        {30: 400, 40: 500, 60: 700, 100: 900, 111: 600, 120: 2000},
        (300, 400),
    ),
    "more was written since than was lost": ({40: 500, 100: 900, 200: 1000}, (0, 400)),
    "nothing was written since it was in sync": ({40: 500, 100: 500, 111: 500}, (0, 0)),
    "nobody asked before it left": ({41: 500, 100: 900, 111: 600}, (300, None)),
    "nobody asked afterwards": ({40: 500, 100: 900, 110: 600}, (None, 400)),
    "nobody asked before": ({111: 600}, (None, None)),
    "one that was read meanwhile is neither": ({40: 500, 105: 900, 111: 600}, (0, 0)),
    "nobody asked": ({}, (None, None)),
}


@for_each("case", CASES)
def test_records_lost(case: str) -> None:
    ends, expected = CASES[case]
    assert lost(ends_read(ends)) == [expected]


def test_ends_of_another_partition_tell_nothing() -> None:
    assert lost(ends_read({40: 500, 100: 900, 111: 600}, of=1)) == [(None, None)]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # Another one lost more before anybody asked.
        ({40: 500, 100: 900, 140: 100}, [(None, 400), (None, None)]),
        ({40: 500, 100: 900, 115: 600, 140: 100}, [(300, 400), (500, None)]),
        ({40: 500, 100: 900, 115: 600}, [(300, 400), (None, None)]),
    ],
)
def test_two_elections(ends: Ends, expected: list[tuple[Any, Any]]) -> None:
    assert lost(ends_read(ends), more=[election((120, 130))]) == expected
