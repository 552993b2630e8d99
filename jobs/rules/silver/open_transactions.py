"""What an answer tells of transactions, and what it leaves open."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jobs.rules.silver.intervals import Key
from jobs.rules.silver.state import Row

STATE = (
    "state",
    "producer_id",
    "producer_epoch",
    "timeout_ms",
    "started_at",
    "coordinator",
    "partition_count",
    "partitions",
    "start_offset",
    "coordinator_epoch",
    "last_written_at",
)
"""The columns of silver.open_transactions that make a state, as bronze has them."""


def transaction(told: Mapping[str, Any]) -> tuple[Key, Row]:
    """Key and state of a transaction that an answer tells."""
    state = {name: told[name] for name in STATE}
    if not told["is_hanging"]:
        return (told["transactional_id"], False), state
    (partition,) = told["partitions"]
    opened_by = f"{told['producer_id']} on {partition['topic']}-{partition['partition']}"
    return (opened_by, True), state


def told_of(
    rows: Iterable[Mapping[str, Any]],
) -> tuple[list[Row], Callable[[Key, Mapping[str, Any]], bool]]:
    """Return the rows of bronze of an answer without what could not be told, and whether a
    transaction that they do not list may be open still: by its key and its row of silver.

    Without an id and partitions an entry stands for all others of its kind.
    """
    told: list[Row] = []
    untold: set[tuple[bool, Any]] = set()
    for row in rows:
        entries = row["transactions"] or ()
        told.append({**row, "transactions": [each for each in entries if each["error"] is None]})
        untold |= {_about(each) for each in entries if each["error"] is not None}

    def may_be_open(key: Key, row: Mapping[str, Any]) -> bool:
        opened_by, is_hanging = key
        about = _places(row["partitions"]) if is_hanging else opened_by
        return (is_hanging, about) in untold or (is_hanging, None) in untold

    return told, may_be_open


def _about(entry: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether an entry is of one that hangs, and its id or partitions; None of all others."""
    if entry["is_hanging"]:
        return True, _places(entry["partitions"])
    return False, entry["transactional_id"]


def _places(partitions: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[Any, Any], ...] | None:
    if partitions is None:
        return None
    return tuple((each["topic"], each["partition"]) for each in partitions)
