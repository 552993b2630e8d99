"""One group's records, in offset order, to its rebalances, their members, and events."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from jobs.rules.groups import epochs
from jobs.rules.groups.classic import classic_group
from jobs.rules.groups.rows import CONVERTED, DELETED, GroupOutput, interrupted
from jobs.rules.groups.state import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    WRITTEN_AFTER,
    Gone,
    Moment,
    Row,
    Standing,
    State,
    to_micros,
    written_by,
)

STEPS: dict[str, dict[int, Callable[[State, Row, GroupOutput], State]]] = {
    CLASSIC: {2: classic_group},
    CONSUMER: dict(zip((3, 5, 6, 7, 8, 4, 16), (*epochs.STEPS, *epochs.OF_CONSUMERS), strict=True)),
    SHARE: dict(
        zip((11, 10, 12, 13, 14, 15), (*epochs.STEPS, epochs.share_state_record), strict=True)
    ),
    STREAMS: dict(
        zip((17, 19, 20, 21, 22, 23), (*epochs.STEPS, epochs.topology_record), strict=True)
    ),
}
"""Type of group -> record type -> what it changes."""

TYPES = {record_type: group_type for group_type, steps in STEPS.items() for record_type in steps}
GROUPS = (2, 3, 11, 17)
"""Records whose tombstone says that the group is gone."""


def fold(state: State, rows: Iterable[Row]) -> tuple[State, GroupOutput]:
    """The state after some rows, and what they tell.

    `rows`: of bronze.group_log, of one group and in offset order, timestamps as aware datetimes;
    and those of its partition that are `lost` or `truncated`, where they lie between them. Rows
    that the state has seen change nothing. A record without a time was written after the group's
    record before, and by when it was read.
    """
    output, now, rows = GroupOutput(), state, list(rows)
    # Offsets tell rows apart only from the last truncation on.
    known = [
        n
        for n, row in enumerate(rows, 1)
        if row["record"] == "truncated" and _span(row) == state.truncated
    ]
    for row in rows[max(known, default=0) :]:
        now = _step(now, row, output)
    if now is not state and now.open_rebalance:
        output.rebalance(now.open_rebalance, now.now)["last_offset"] = now.last_offset
    return now, output


def _step(state: State, row: Row, output: GroupOutput) -> State:
    record, last, offset, next_offset = (
        row["record"],
        state.last_offset,
        row["offset"],
        row["next_offset"],
    )
    if record == "truncated":
        detail = f"the log ended {offset - next_offset} offsets before what had been read"
        return replace(_broken(state, row, detail, output), truncated=_span(row))
    if last is not None and (next_offset - 1 if record == "lost" else offset) <= last:
        return state
    if record == "lost":
        why = (
            "were gone before they could be read"
            if row["error"] is None
            else f"cannot be read: {row['error']}"
        )
        return _broken(state, row, f"{next_offset - offset} offsets {why}", output)
    is_next = (row["timestamp"], offset - 1) == (state.at, last)
    if row["timestamp"] is None:
        by = written_by(row)
        row = {**row, "timestamp": max(by, state.at or by), WRITTEN_AFTER: state.at}
    state = replace(
        state, log_partition=row["log_partition"], known_since=state.known_since or row["timestamp"]
    )
    if not is_next:
        # Another batch: records of one change have one time, and lie side by side.
        output.recent.clear()
        rebalance = state.open_rebalance if state.known else state.rebalance
        state = replace(
            state, began=state.now, fresh=False, gone=None, rebalance=rebalance, removed={}
        )
    return replace(_record(state, row, output), last_offset=offset, at=row["timestamp"])


def _span(row: Row) -> list[int]:
    return [row["offset"], row["next_offset"], to_micros(row["read_at"])]


def _broken(state: State, row: Row, detail: str, output: GroupOutput) -> State:
    """The state where records of the partition are missing."""
    if state.known_since is None or state.at is None:
        state = replace(state, gap=True)
    else:
        by = max(row["read_at"], state.at)
        if state.now.group_type is not None or not state.known:
            output.event(
                "records_lost",
                Moment(by, state.at, row["log_partition"], row["offset"]),
                detail=detail,
            )
        state = interrupted(state, by, output)
    output.recent.clear()
    return replace(state, last_offset=row["next_offset"] - 1)


def _record(state: State, row: Row, output: GroupOutput) -> State:
    record_type, known_type = row["type"], state.now.group_type
    group_type = TYPES.get(record_type)
    if row["error"] is not None:
        output.event("undecoded", Moment.of(row), Standing(known_type), detail=row["error"])
        # A record of a type that is known would have changed the group, one does not know how.
        return state if group_type is None else interrupted(state, row["timestamp"], output)
    if group_type is None:
        return state
    step = STEPS[group_type][record_type]
    if row["is_tombstone"] and record_type in GROUPS:
        return _gone(state, row, group_type, output)
    if row["is_tombstone"]:
        return (
            step(state, row, output)
            if known_type == group_type and step in epochs.WITH_TOMBSTONE
            else state
        )
    if known_type != group_type:
        state = _converted(state, row, group_type, output)
    if state.now.group_type != group_type:
        # The first record of a group.
        if state.now.group_type is not None:
            state = interrupted(state, row["timestamp"], output)
        state = replace(state, fresh=True, now=Standing(group_type=group_type), gone=None)
    return step(state, row, output)


def _gone(state: State, row: Row, group_type: str, output: GroupOutput) -> State:
    """The state at a group's tombstone: it is deleted, unless the batch has it as another type."""
    at, rebalance = Moment.of(row), state.open_rebalance
    # Members of groups that are not classic have tombstones of their own, which come first in the
    # batch.
    was = state.now if group_type == CLASSIC else state.began
    if state.now.group_type is None and not state.known:
        was = Standing(group_type=group_type)
    elif state.now.group_type != group_type:
        return state
    if rebalance is not None:
        output.rebalance(rebalance, was, DELETED, at)
    output.event("deleted", at, replace(was, group_type=group_type))
    state = replace(
        state,
        gone=Gone(at, was, state.known, rebalance),
        known=True,
        now=Standing(),
        rebalance=None,
    )
    return replace(state, last_end=None, converted_from=None, leavers={})


def _converted(state: State, row: Row, group_type: str, output: GroupOutput) -> State:
    """The state where a batch that took a group away has it as another type: converted (KIP-848),
    if it had members.

    Kafka deletes no group that has some. Of one that is not known, members that speak the classic
    protocol tell it.
    """
    gone = state.gone
    if gone is None or gone.standing.group_type == group_type:
        return state
    was = gone.standing
    speaks_classic = (
        row["classic"]["members"]
        if group_type == CLASSIC
        else (row["member"] or {}).get("protocols")
    )
    if not (was.members if gone.known else speaks_classic):
        return state
    # Both take the place of the deletion that it looked like.
    if gone.rebalance is not None:
        output.rebalance(gone.rebalance, was, CONVERTED, gone.at)
    now = Standing(group_type=group_type, generation=was.generation)
    output.event("converted", gone.at, now, prev_group_type=was.group_type)
    return replace(
        state,
        known=gone.known,
        gap=True,
        now=now,
        began=was,
        converted_from=was.group_type,
        gone=None,
    )
