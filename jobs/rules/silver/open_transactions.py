"""What an answer tells of transactions, and what it leaves open."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from jobs.rules.groups.partition import log_partition
from jobs.rules.silver.intervals import Key
from jobs.rules.silver.state import Row
from metadata_source.transactional_ids import CUT

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

    Without an id and partitions an entry stands for all others of its kind: of those that do not
    hang for producer ids from its own on. With partitions, and not of one that hangs, it stands for
    all ids that these partitions of the coordinators' log keep.
    """
    told: list[Row] = []
    untold: set[tuple[bool, Any]] = set()
    others: list[Callable[[Key, Mapping[str, Any]], bool]] = []
    for row in rows:
        entries = row["transactions"] or ()
        told.append({**row, "transactions": [each for each in entries if each["error"] is None]})
        for each in entries:
            if each["error"] is None:
                continue
            if each["is_hanging"] or each["transactional_id"] is not None:
                untold.add(_about(each))
            elif each["partitions"] is not None:
                others.append(_kept_by(each))
            else:
                others.append(partial(_is_from, each["producer_id"]))

    def may_be_open(key: Key, row: Mapping[str, Any]) -> bool:
        opened_by, is_hanging = key
        if is_hanging:
            return not untold.isdisjoint(((True, _places(row["partitions"])), (True, None)))
        return (False, opened_by) in untold or any(of(key, row) for of in others)

    return told, may_be_open


def _is_from(producer_id: int | None, _: Key, row: Mapping[str, Any]) -> bool:
    return producer_id is None or row["producer_id"] is None or row["producer_id"] >= producer_id


def _kept_by(entry: Mapping[str, Any]) -> Callable[[Key, Mapping[str, Any]], bool]:
    partitions = {each["partition"] for each in entry["partitions"]}
    count = entry["partition_count"]

    def is_kept(key: Key, _: Mapping[str, Any]) -> bool:
        # Of an id that was cut nobody knows the partition.
        return CUT in key[0] or log_partition(key[0], count) in partitions

    return is_kept


def _about(entry: Mapping[str, Any]) -> tuple[bool, Any]:
    """Whether an entry is of one that hangs, and its id or partitions; None of all others."""
    if entry["is_hanging"]:
        return True, _places(entry["partitions"])
    return False, entry["transactional_id"]


def _places(partitions: Iterable[Mapping[str, Any]] | None) -> tuple[tuple[Any, Any], ...] | None:
    if partitions is None:
        return None
    return tuple((each["topic"], each["partition"]) for each in partitions)
