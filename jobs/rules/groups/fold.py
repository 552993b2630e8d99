"""One group's records, in offset order, to its rebalances, their members, and events."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from jobs.rules.groups import epochs
from jobs.rules.groups.classic import classic_group
from jobs.rules.groups.endings import converted, group_tombstone, interrupted
from jobs.rules.groups.micros import to_micros
from jobs.rules.groups.rows import Told
from jobs.rules.groups.state import CLASSIC, CONSUMER, SHARE, STREAMS, Moment, Standing, State

Row = Mapping[str, Any]

CLASSIC_GROUP = 2
TYPES = {
    CLASSIC_GROUP: CLASSIC,
    **dict.fromkeys((3, 5, 6, 7, 8, 16), CONSUMER),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), STREAMS),
}
"""Type of group that a record type belongs to. Type 4 is only written to be gone (Kafka 4.1)."""

GROUPS = (CLASSIC_GROUP, 3, 11, 17)
"""Records whose tombstone says that the group is gone."""

VALUES = {CLASSIC_GROUP: classic_group, **epochs.VALUES}


def fold(state: State, rows: Iterable[Row]) -> tuple[State, Told]:
    """The state after some rows, and what they tell.

    `rows`: of bronze.group_log, of one group and in offset order, timestamps as aware datetimes; and those of its
    partition that are `lost` or `truncated`, where they lie between them. Rows that the state has seen change nothing.
    """
    told, now = Told(), state
    for row in _not_seen(state, list(rows)):
        now = _step(now, row, told)
    if now is not state and now.rebalance is not None and not now.rebalance.ended:
        told.rebalance(now.rebalance, now.now, last_offset=now.last_offset)
    return now, told


def same_batch(at: datetime | None, offset: int | None, row: Row) -> bool:
    """Whether a record may be of the batch of the one before, at `offset`: those of one change have one time, side by
    side.
    """
    return bool(row["record"] == "record" and row["timestamp"] == at and row["offset"] - 1 == offset)


def _not_seen(state: State, rows: list[Row]) -> list[Row]:
    """The rows after the truncation that the state knows last, where they have it: offsets tell only those from there
    on apart.
    """
    known = [n for n, row in enumerate(rows, 1) if row["record"] == "truncated" and _span(row) == state.truncated]
    return rows[known[-1] :] if known else rows


def _step(state: State, row: Row, told: Told) -> State:
    kind, last_offset = row["record"], state.last_offset
    if kind == "lost" and (last_offset is None or row["next_offset"] - 1 > last_offset):
        return _broken(
            state, row, f"{row['next_offset'] - row['offset']} offsets were gone before they could be read", told
        )
    if kind == "truncated":
        what = f"the log ended {row['offset'] - row['next_offset']} offsets before what had been read"
        return replace(_broken(state, row, what, told), truncated=_span(row))
    if kind == "record" and (last_offset is None or row["offset"] > last_offset):
        state = _record(_in_batch(state, row), row, told)
        return replace(state, last_offset=row["offset"], at=row["timestamp"])
    return state


def _span(row: Row) -> list[int]:
    return [row["offset"], row["next_offset"], to_micros(row["read_at"])]


def _broken(state: State, row: Row, detail: str, told: Told) -> State:
    """The state where records of the partition are missing."""
    if state.known_since is None or state.at is None:
        state = replace(state, gap=True)
    else:
        by = max(row["read_at"], state.at)
        if state.now.group_type is not None or not state.known:
            told.event("records_lost", Moment(by, state.at, row["log_partition"], row["offset"]), detail=detail)
        state = interrupted(state, by, told)
    return replace(state, last_offset=row["next_offset"] - 1)


def _in_batch(state: State, row: Row) -> State:
    """The state at a record: what only concerns the batch before it is dropped."""
    state = replace(state, log_partition=row["log_partition"], known_since=state.known_since or row["timestamp"])
    if same_batch(state.at, state.last_offset, row):
        return state
    over = state.rebalance is not None and state.rebalance.ended and state.known
    return replace(state, began=state.now, fresh=False, gone=None, rebalance=None if over else state.rebalance)


def _record(state: State, row: Row, told: Told) -> State:
    kind, known_type = row["type"], state.now.group_type
    group_type = TYPES.get(kind)
    if row["error"] is not None:
        told.event("undecoded", Moment.of(row), group_type=known_type, detail=row["error"])
        # A record of a type that is known would have changed the group, one does not know how.
        return state if group_type is None else interrupted(state, row["timestamp"], told)
    if group_type is None:
        return state
    if row["is_tombstone"]:
        if kind in GROUPS:
            return group_tombstone(state, row, group_type, told)
        step = epochs.TOMBSTONES.get(kind)
        return state if step is None or known_type != group_type else step(state, row, told)
    if known_type != group_type:
        state = converted(state, row, group_type, told)
    if state.now.group_type != group_type:
        state = _first(state, row, group_type, told)
    return VALUES[kind](state, row, told)


def _first(state: State, row: Row, group_type: str, told: Told) -> State:
    """The state where the first record of a group is read."""
    if state.now.group_type is not None:
        state = interrupted(state, row["timestamp"], told)
    return replace(state, fresh=True, now=Standing(group_type=group_type), gone=None)
