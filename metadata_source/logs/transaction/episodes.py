"""Records of transactional ids made into episodes: a transaction, as far as the records of a
stretch have it, or an InitProducerId, or a tombstone.

A record is an episode of one. `joined` makes those of an id that follow each other one, where they
are of one transaction: so it does not matter where the records of a stretch are cut.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np

from metadata_source.long_transactions import (
    COMPLETES_WITHIN,
    LONG,
    NO_TIMEOUT,
    WITH_EPOCH_BUMP,
)
from metadata_source.protocol.transaction_specs import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)

if TYPE_CHECKING:
    from metadata_source.protocol.vectors import Flags, Positions

    Episodes = dict[str, Positions]
    """Columns of episodes, one row each: those of `COLUMNS`."""

NONE: Final = -1
OPEN: Final = (ONGOING, PREPARE_COMMIT, PREPARE_ABORT)
COMPLETE: Final = (COMPLETE_COMMIT, COMPLETE_ABORT)
LONG_MS: Final = LONG // timedelta(milliseconds=1)
LONG_COMPLETING_MS: Final = COMPLETES_WITHIN // timedelta(milliseconds=1)
UNCERTAIN_MS: Final = 1_000
"""Of a transaction that begins so soon after the first record of a stretch a record may be before
it: one that was made in the same ms.
"""
BY_CLIENT, BY_COORDINATOR = 1, 2
"""By whom a transaction was aborted; `NONE` where its records do not tell."""

OF_FIRST: Final = (
    *("key", "is_first", "head", "from_offset", "from_ms", "from_leader_epoch", "from_updated_ms"),
    *("from_epoch", "is_after_hole"),
)
OF_LAST: Final = ("state", "offset", "ms", "leader_epoch")
"""Of the last record, but not of InitProducerId after the transaction."""
OF_VALUE: Final = (
    *("producer_id", "previous_producer_id", "next_producer_id", "producer_epoch"),
    *("next_producer_epoch", "client_transaction_version", "timeout_ms", "started_ms"),
    "updated_ms",
)
"""As the last record that has a value, and is of the transaction, has them."""
_OF_PHASES: Final = {
    "ongoing": ("ongoing_epoch", "ongoing_version"),
    "prepared": ("prepared_offset", "prepared_ms", "prepared_epoch", "prepared_version"),
    "completed": ("completed_offset", "completed_ms"),
    "initialized": ("initialized_offset", "initialized_ms"),
}
"""Of one record each; the first of them says whether there is one."""
OF_PARTITIONS: Final = ("partition_count", "partitions_at")
OF_NEXT: Final = ("next_state", "next_epoch", "next_ms")
"""Of the id's next record, once there is one."""
COLUMNS: Final = (
    *(*OF_FIRST, "tail", *OF_LAST, *OF_VALUE),
    *(name for names in _OF_PHASES.values() for name in names),
    *(*OF_PARTITIONS, *OF_NEXT),
)


def episodes_of(records: Episodes) -> Episodes:
    """Return records as episodes of one: with `key`, `is_first`, `is_after_hole` (records before
    it were compacted away), `offset`, `ms`, `leader_epoch`, `state`, `partition_count`,
    `partitions_at` and the columns of values.
    """
    none = np.full(len(records["key"]), NONE)
    found = dict.fromkeys(COLUMNS, none) | records
    state, offset, updated = records["state"], records["offset"], records["updated_ms"]
    epoch, version = records["producer_epoch"], records["client_transaction_version"]
    found |= {"head": state, "tail": state, "from_epoch": epoch, "from_updated_ms": updated}
    found |= {f"from_{name}": records[name] for name in ("offset", "ms", "leader_epoch")}
    is_ongoing = state == ONGOING
    found |= {"ongoing_epoch": np.where(is_ongoing, epoch, NONE)}
    found |= {"ongoing_version": np.where(is_ongoing, version, NONE)}
    is_prepared = (state == PREPARE_COMMIT) | (state == PREPARE_ABORT)
    found |= {"prepared_epoch": np.where(is_prepared, epoch, NONE)}
    found |= {"prepared_version": np.where(is_prepared, version, NONE)}
    # A coordinator makes the value of the last record once the end is decided, and writes it once
    # all markers are written, which may be much later: the record's own timestamp is of then.
    written = np.where(records["ms"] == NONE, updated, np.maximum(records["ms"], updated))
    for name, is_one, at in (
        ("prepared", is_prepared, updated),
        ("completed", np.isin(state, COMPLETE), written),
        ("initialized", state == EMPTY, updated),
    ):
        found[f"{name}_offset"] = np.where(is_one, offset, NONE)
        found[f"{name}_ms"] = np.where(is_one, at, NONE)
    return found


def select(episodes: Episodes, rows: Positions | Flags) -> Episodes:
    """Return some rows."""
    return {name: column[rows] for name, column in episodes.items()}


def followed(one: Episodes, other: Episodes) -> Episodes:
    """Return the rows of one, then those of the other."""
    return {name: np.concatenate([column, other[name]]) for name, column in one.items()}


def no_episodes() -> Episodes:
    """Return episodes without a row."""
    return {name: np.empty(0, dtype=np.int64) for name in COLUMNS}


def joined(episodes: Episodes) -> tuple[Episodes, Flags]:
    """Return episodes by their keys, those of one transaction as one; which are followed by another
    of their key, and are over.
    """
    rows = select(episodes, np.argsort(episodes["key"], kind="stable"))
    count = len(rows["key"])
    joins = np.zeros(count, dtype=np.bool_)
    joins[1:] = (rows["key"][1:] == rows["key"][:-1]) & _are_one(rows)
    starts = np.flatnonzero(~joins)
    ends = np.append(starts[1:], count)
    lasts = ends - 1
    whole = {name: rows[name][starts] for name in OF_FIRST} | {"tail": rows["tail"][lasts]}
    # What comes after a transaction only says when the id began again, or was removed.
    is_more = joins[lasts]
    of_last = lasts - (is_more & (rows["state"][lasts] == EMPTY))
    of_value = lasts - (is_more & np.isin(rows["state"][lasts], (EMPTY, DEAD)))
    whole |= {name: rows[name][of_last] for name in OF_LAST}
    whole |= {name: rows[name][of_value] for name in OF_VALUE}
    for phase, names in _OF_PHASES.items():
        at = _of_segments(rows[names[0]] != NONE, starts, ends, last=phase == "ongoing")
        whole |= {name: np.where(at >= 0, rows[name][at], NONE) for name in names}
    at = _of_segments(rows["partition_count"] > 0, starts, ends, last=True)
    whole["partitions_at"] = np.where(at >= 0, rows["partitions_at"][at], NONE)
    whole["partition_count"] = (
        np.maximum.reduceat(rows["partition_count"], starts) if count else rows["partition_count"]
    )
    is_followed = np.zeros(len(starts), dtype=np.bool_)
    is_followed[:-1] = whole["key"][1:] == whole["key"][:-1]
    for name, of in (("next_state", "head"), ("next_epoch", "from_epoch"), ("next_ms", "from_ms")):
        column = np.full(len(starts), NONE)
        column[:-1] = np.where(is_followed[:-1], whole[of][1:], NONE)
        whole[name] = column
    return whole, is_followed


def _are_one(rows: Episodes) -> Flags:
    """Return of each row but the first whether it continues the row before, both of one id."""
    tail, head = rows["tail"][:-1], rows["head"][1:]
    same_start = rows["started_ms"][:-1] == rows["started_ms"][1:]
    goes_on = (
        (tail == ONGOING) & ((head == ONGOING) | (head == PREPARE_COMMIT) | (head == PREPARE_ABORT))
        | ((tail == ONGOING) | (tail == PREPARE_COMMIT)) & (head == COMPLETE_COMMIT)
        | ((tail == ONGOING) | (tail == PREPARE_ABORT)) & (head == COMPLETE_ABORT)
        | (tail == head) & ((tail == PREPARE_COMMIT) | (tail == PREPARE_ABORT))
    )
    fences = (tail == COMPLETE_ABORT) & (head == EMPTY) & _is_next_epoch(rows)
    is_one: Flags = goes_on & same_start | fences | np.isin(tail, OPEN) & (head == DEAD)
    return is_one


def _is_next_epoch(rows: Episodes) -> Flags:
    """Return of each row but the first whether its producer may have caused the end of the row
    before: it has the same epoch or the next one, or a producer id of its own.
    """
    before, now = rows["producer_epoch"][:-1], rows["from_epoch"][1:]
    is_other_id = rows["producer_id"][:-1] != rows["producer_id"][1:]
    is_next: Flags = is_other_id | (now == before) | (now == before + 1)
    return is_next


def _of_segments(flags: Flags, starts: Positions, ends: Positions, *, last: bool) -> Positions:
    """Return the first, or last, flagged row of each segment, -1 for none."""
    found = np.append(np.flatnonzero(flags), len(flags))
    at = np.searchsorted(found, ends) - 1 if last else np.searchsorted(found, starts)
    rows = found[at]
    is_there = (rows >= starts) & (rows < ends) & (at >= 0)
    picked: Positions = np.where(is_there, rows, NONE)
    return picked


class Fates:
    """What became of episodes, one row each, of a stretch whose first record has `since_ms`."""

    def __init__(self, episodes: Episodes, since_ms: int) -> None:
        of = episodes
        state, head, started = of["state"], of["head"], of["started_ms"]
        is_first = of["is_first"] > 0
        self.is_transaction = (head != EMPTY) & (head != DEAD)
        self.is_complete = np.isin(state, COMPLETE)
        begins = (head == ONGOING) & (of["from_updated_ms"] == started)
        may_abort_nothing = (
            (head == PREPARE_ABORT)
            & (of["prepared_version"] >= WITH_EPOCH_BUMP)
            & (of["from_updated_ms"] == started)
        )
        aborts_nothing = may_abort_nothing & ~is_first
        self.begun = begins | aborts_nothing
        self.was_open = self.is_transaction & ~self.begun
        self.may_have_been_open = is_first & (
            begins & (started <= since_ms + UNCERTAIN_MS) | may_abort_nothing
        )
        self.duration_ms = _between(started, of["completed_ms"])
        self.completing_ms = _between(of["prepared_ms"], of["completed_ms"])
        is_aborted = (state == PREPARE_ABORT) | (state == COMPLETE_ABORT)
        self.is_late = (
            is_aborted
            & (of["timeout_ms"] < NO_TIMEOUT)
            & (_between(started, of["prepared_ms"]) > of["timeout_ms"])
        )
        self.aborted_by = np.where(is_aborted, self._aborted_by(of, aborts_nothing), NONE)
        self.is_aborted = is_aborted
        self.is_unusual = self.is_transaction & (
            ~self.is_complete
            | is_aborted & (self.aborted_by != BY_CLIENT)
            | (self.duration_ms > np.minimum(of["timeout_ms"], LONG_MS))
            | (self.completing_ms > LONG_COMPLETING_MS)
        )
        other_id = (of["previous_producer_id"] != NONE) & (
            of["previous_producer_id"] != of["producer_id"]
        )
        begins_again = (head == EMPTY) & is_first & ((of["producer_epoch"] > 0) | other_id)
        # Of a transaction that was open before, the end may have been compacted away.
        follows_another = is_first & ((of["is_after_hole"] > 0) | (head == DEAD))
        self.is_entry = self.is_unusual | self.was_open | self.may_have_been_open
        self.is_entry |= begins_again | follows_another
        self.followed_ms = np.where(
            state == DEAD, of["ms"], np.where(np.isin(state, OPEN), of["next_ms"], NONE)
        )

    def _aborted_by(self, of: Episodes, aborts_nothing: Flags) -> Positions:
        epoch, before = of["prepared_epoch"], of["ongoing_epoch"]
        both = (epoch != NONE) & (before != NONE)
        is_new = of["prepared_version"] >= WITH_EPOCH_BUMP
        was_new = of["ongoing_version"] >= WITH_EPOCH_BUMP
        by_coordinator = both & np.where(is_new, ~was_new | (epoch >= before + 2), epoch > before)
        # A producer that ends a transaction which has timed out already learns the epoch, too.
        goes_on = (
            np.isin(of["next_state"], OPEN)
            & (of["next_epoch"] == of["producer_epoch"])
            & (of["initialized_offset"] == NONE)
            & ~self.is_late
        )
        by_client = aborts_nothing | goes_on | both & ~is_new & (epoch == before)
        found: Positions = np.where(
            by_coordinator, BY_COORDINATOR, np.where(by_client, BY_CLIENT, NONE)
        )
        return found


def _between(begin: Positions, end: Positions) -> Positions:
    """Return ms from one time to the other, at least 0; -1 where one of them is not there."""
    found: Positions = np.where((begin >= 0) & (end >= 0), np.maximum(end - begin, 0), NONE)
    return found
