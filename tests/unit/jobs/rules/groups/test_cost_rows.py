"""What costs follow from: columns of a rebalance, and of a visit."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.rules.groups.cost_rows import Rebalance, Visit

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(seconds=3)
ROW = {
    "id": "r",
    "log_partition": 7,
    "first_offset": 10,
    "last_offset": 12,
    "began_before": AT,
    "ended_before": LATER,
    "prev_members": 2,
    "since_previous_ms": 5,
    "end_reason": "completed",
}


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({}, {"last_offset": 12, "ended": LATER, "emptied": False, "was_empty": False}),
        ({"last_offset": None, "ended_before": None}, {"last_offset": 10, "ended": None}),
        # What is read again of a log that was truncated.
        ({"last_offset": 8}, {"last_offset": 10}),
        ({"end_reason": "emptied"}, {"emptied": True}),
        ({"end_reason": "deleted"}, {"emptied": False}),
        ({"prev_members": 0}, {"was_empty": True}),
        # Nobody was there before the first rebalance.
        ({"prev_members": 0, "since_previous_ms": None}, {"was_empty": False}),
        ({"prev_members": None}, {"was_empty": False}),
    ],
)
def test_a_rebalance(columns: dict[str, Any], found: dict[str, Any]) -> None:
    rebalance = vars(Rebalance.of(ROW | columns))
    whole = {"id": "r", "log_partition": 7, "first_offset": 10, "began": AT} | found
    assert {name: rebalance[name] for name in whole} == whole


@pytest.mark.parametrize(
    ("committed", "log_end", "lag"),
    [(5, 9, 4), (5, 5, 0), (9, 5, 0), (None, 9, None), (5, None, None)],
)
def test_a_visit(committed: int | None, log_end: int | None, lag: int | None) -> None:
    row = {
        "committed_offset": committed,
        "log_start": 1,
        "log_end": log_end,
        "commit_read_after": AT,
        "commit_read_before": LATER,
        "ends_read_after": LATER,
        "ends_read_before": LATER + (LATER - AT),
    }
    found = Visit.of(row)
    ends = LATER, LATER + (LATER - AT)
    assert found == Visit(committed, 1, log_end, (AT, LATER), ends)
    assert found.lag == lag
    assert Visit.of(row | {"ends_read_before": None}).ends is None
