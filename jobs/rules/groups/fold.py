"""One group's records, in offset order, to its rebalances, their members, and events."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from jobs.rules.groups import epochs
from jobs.rules.groups.classic import classic_group
from jobs.rules.groups.endings import converted, group_tombstone, interrupted
from jobs.rules.groups.rows import Row, Told
from jobs.rules.groups.state import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    Standing,
    State,
    from_json,
    from_ms,
    to_json,
    to_ms,
)

CLASSIC_GROUP = 2
TYPES = {
    **dict.fromkeys((CLASSIC_GROUP,), CLASSIC),
    **dict.fromkeys((3, 5, 6, 7, 8, 16), CONSUMER),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), STREAMS),
}
"""Type of group that a record type belongs to. Type 4 is only written to be gone (Kafka 4.1)."""


@dataclass(frozen=True)
class Folded:
    """The state after some rows, and what they told.

    Rows are whole, and replace those told before: a rebalance that of the same first_offset and began_by, with all of its members;
    an event that of the same offset, instance_id and began_by.
    """

    state: dict[str, Any]
    rebalances: list[Row]
    members: list[Row]
    events: list[Row]

    @property
    def group_type(self) -> str | None:
        """Type of the group now; None once it is gone, or where it is not known."""
        return from_json(self.state).now.group_type

    @property
    def known_since(self) -> datetime | None:
        """Time of the first record since which none was missed; None before any."""
        return from_ms(from_json(self.state).known_since)


def fold(state: Mapping[str, Any] | None, rows: Iterable[Mapping[str, Any]]) -> Folded:
    """What a group's rows tell, given the state that the rows before left.

    `rows`: of bronze.group_log, of one group and in offset order, timestamps as aware datetimes; and those of its partition that are
    `lost` or `truncated`, where they lie between them. Rows that the state has seen change nothing. Returns the state to go on with,
    rows of gold.rebalances and gold.rebalance_members (these with the `first_offset` of their rebalance) and gold.group_events.
    """
    told, now = Told(), from_json(state)
    changed = False
    for row in _not_seen(now, list(rows)):
        after = _step(now, row, told)
        changed = changed or after.rebalance is not now.rebalance
        now = after
    if changed and now.rebalance is not None and not now.rebalance.ended:
        told.rebalance(now, now.rebalance, now.now, None)
    members = [member for each in told.members.values() for member in each]
    return Folded(to_json(now), list(told.rebalances.values()), members, list(told.events.values()))


def _not_seen(state: State, rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows after the truncation that the state knows last, where they have it: offsets tell only those from there on apart."""
    known = [n for n, row in enumerate(rows, 1) if row["record"] == "truncated" and _span(row) == state.truncated]
    return rows[known[-1] :] if known else rows


def _step(state: State, row: Mapping[str, Any], told: Told) -> State:
    match row["record"]:
        case "lost":
            return _lost(state, row, told)
        case "truncated":
            return _truncated(state, row, told)
        case "record" if state.last_offset is None or row["offset"] > state.last_offset:
            return _passed(_record(_in_batch(state, row), row, told), row)
    return state


# --- spans ---


def _lost(state: State, row: Mapping[str, Any], told: Told) -> State:
    if state.last_offset is not None and row["next_offset"] - 1 <= state.last_offset:
        return state
    state = _broken(
        state, row, f"{row['next_offset'] - row['offset']} offsets were gone before they could be read", told
    )
    return replace(state, last_offset=row["next_offset"] - 1)


def _truncated(state: State, row: Mapping[str, Any], told: Told) -> State:
    what = f"the log ended {row['offset'] - row['next_offset']} offsets before what had been read"
    return replace(_broken(state, row, what, told), last_offset=row["next_offset"] - 1, truncated=_span(row))


def _span(row: Mapping[str, Any]) -> list[int]:
    return [row["offset"], row["next_offset"], to_ms(row["read_at"])]


def _broken(state: State, row: Mapping[str, Any], detail: str, told: Told) -> State:
    if state.known_since is None or state.at is None:
        return replace(state, gap=True)
    by = max(to_ms(row["read_at"]), state.at)
    if state.now.group_type is not None or not state.known:
        told.event("records_lost", row, state.at, by, detail=detail)
    return interrupted(state, by, told)


# --- records ---


def _in_batch(state: State, row: Mapping[str, Any]) -> State:
    """The state at a record: what only concerns the batch before it is dropped. Records of one change have one time, side by side."""
    at = to_ms(row["timestamp"])
    state = replace(
        state,
        log_partition=row["log_partition"],
        known_since=at if state.known_since is None else state.known_since,
    )
    if state.at == at and state.last_offset == row["offset"] - 1:
        return state
    over = state.rebalance is not None and state.rebalance.ended and state.known
    return replace(state, began=state.now, fresh=False, gone=None, rebalance=None if over else state.rebalance)


def _passed(state: State, row: Mapping[str, Any]) -> State:
    rebalance = state.rebalance
    if rebalance is not None and not rebalance.ended:
        rebalance = replace(rebalance, last_offset=row["offset"])
    return replace(state, last_offset=row["offset"], at=to_ms(row["timestamp"]), rebalance=rebalance)


def _record(state: State, row: Mapping[str, Any], told: Told) -> State:
    kind, at = row["type"], to_ms(row["timestamp"])
    group_type = TYPES.get(kind)
    if row["error"] is not None:
        told.event("undecoded", row, at, at, group_type=state.now.group_type, detail=row["error"])
        # A record of a type that is known would have changed the group, one does not know how.
        return state if group_type is None else interrupted(state, at, told)
    if group_type is None:
        return state
    if row["tombstone"]:
        if kind == CLASSIC_GROUP or kind in epochs.EPOCHS:
            return group_tombstone(state, row, group_type, told)
        return state if state.now.group_type != group_type else _epochs(state, row, told)
    if state.now.group_type != group_type:
        state = converted(state, row, group_type, told)
    if state.now.group_type != group_type:
        state = _first(state, row, group_type, told)
    return classic_group(state, row, told) if kind == CLASSIC_GROUP else _epochs(state, row, told)


def _first(state: State, row: Mapping[str, Any], group_type: str, told: Told) -> State:
    """The state where the first record of a group is read."""
    if state.now.group_type is not None:
        state = interrupted(state, to_ms(row["timestamp"]), told)
    return replace(state, fresh=True, now=Standing(group_type=group_type), gone=None)


def _epochs(state: State, row: Mapping[str, Any], told: Told) -> State:
    kind = row["type"]
    if kind in epochs.EPOCHS:
        return epochs.epoch_record(state, row, told)
    if kind in epochs.MEMBERS:
        return epochs.member_record(state, row, told)
    if kind in epochs.CURRENTS:
        return epochs.current_record(state, row, told)
    if kind in epochs.TARGETS:
        return epochs.target_record(state, row)
    if kind in epochs.TARGET_EPOCHS:
        return epochs.target_epoch_record(state, row)
    return {
        epochs.PATTERN: epochs.pattern_record,
        epochs.SHARE_STATE: epochs.share_state_record,
        epochs.TOPOLOGY: epochs.topology_record,
    }[kind](state, row)
