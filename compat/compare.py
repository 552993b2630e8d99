"""History held against what the script and the version say, step by step and row by row."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compat.model import NO_LEADER, Expected, Key, Move, Outage, Rebalanced, Turn
from compat.versions import Version
from metadata_source.outcomes import is_answered
from truth.compare_events import IsrChange, LeaderChange
from truth.groups.history import Rebalance

CLASSIC = "classic"


@dataclass(frozen=True)
class Window:
    """A step as it was done: all that came of it was seen by every broker at `settled_at`, and the
    next began at `ended_at`.
    """

    expected: Expected
    began_at: datetime
    settled_at: datetime
    ended_at: datetime

    def has(self, at: datetime) -> bool:
        """Whether a poll of then belongs to the step."""
        return self.began_at <= at < self.ended_at

    def __str__(self) -> str:
        return str(self.expected.step)


@dataclass(frozen=True)
class Compared:
    """One kind of rows of one version: how many, how sure they are, and all that should not be."""

    what: str
    rows: int
    sure: str
    faults: tuple[str, ...]


def compare_leaders(windows: Sequence[Window], rows: Sequence[LeaderChange]) -> Compared:
    """gold.leader_changes: each change of a leader in one row of its step, and rows without one
    only where the version raises epochs without one.
    """
    faults = [
        f"in no step: {_told(row)}"
        for row in rows
        if not any(each.has(row.began_before) for each in windows)
    ]
    for window in windows:
        found = _by_partition(row for row in rows if window.has(row.began_before))
        for key in sorted({*found, *window.expected.turns}):
            turn = window.expected.turns.get(key, Turn())
            faults += [
                f"{window}: {_name(key)}: {fault}"
                for fault in _leader_faults(turn, found.get(key, ()))
            ]
    exact = sum(row.epoch_semantics == "exact" for row in rows)
    return Compared("leader changes", len(rows), _sure(exact, len(rows) - exact), tuple(faults))


def _leader_faults(turn: Turn, rows: Sequence[LeaderChange]) -> Iterator[str]:
    wanted = [turn.move] if turn.move else []
    if turn.move and turn.shows_none and rows and rows[0].leader == NO_LEADER:
        gone, prev_leader, leader = rows[0], turn.move.prev_leader, turn.move.leader
        wanted = [Move(prev_leader, NO_LEADER, "offline")]
        wanted += [Move(NO_LEADER, leader, "recovery")] if leader != NO_LEADER else []
        if gone.leader_epoch == gone.prev_leader_epoch:
            told = (
                gone.prev_leader,
                gone.reason,
                gone.epoch_semantics,
                gone.changes_min,
                gone.changes_max,
            )
            if told != (prev_leader, "offline", "unreliable", 1, None):
                yield f"{_told(gone)}: not {prev_leader} to none, offline, unreliable 1 to None"
            rows, wanted = rows[1:], wanted[1:]
    moves = [row for row in rows if row.leader != row.prev_leader]
    yield from _move_faults(wanted, moves, rows)
    rises = [row for row in rows if row not in moves]
    for row in rises:
        reason = _reason_of_rise(turn, row)
        # If it was taken back between two polls, nobody saw that it was out.
        is_unseen = (
            row.reason == "unknown" and turn.raised[0] < turn.raised[1] and row is not rises[-1]
        )
        if row.reason != reason and not is_unseen:
            yield f"not {reason} where no leader changed: {_told(row)}"
    least, steps = turn.raised
    raised = sum(row.leader_epoch - row.prev_leader_epoch for row in rows)
    if not least <= raised <= steps:
        yield (
            f"the epoch rose by {raised} and not by "
            f"{least if least == steps else f'{least} to {steps}'}"
        )
    semantics = "exact" if turn.is_exact else "upper_bound"
    for row in rows:
        raised, moved = row.leader_epoch - row.prev_leader_epoch, int(row in moves)
        # One step under one leader is no change: away and back are two.
        most = 0 if (raised, moved) == (1, 0) else raised
        bounds = (most if turn.is_exact else moved, most)
        if (row.epoch_semantics, row.changes_min, row.changes_max) != (semantics, *bounds):
            yield f"{_told(row)}: not {semantics} with {bounds[0]} to {bounds[1]} changes"


def _move_faults(
    wanted: Sequence[Move], moves: Sequence[LeaderChange], rows: Sequence[LeaderChange]
) -> Iterator[str]:
    told = [(row.prev_leader, row.leader) for row in moves]
    asked = [(move.prev_leader, move.leader) for move in wanted]
    if told != asked:
        yield (
            f"changes (from, to) {told or 'none'} and not {asked or 'none'}: "
            f"{'; '.join(map(_told, rows))}"
        )
        return
    for row, move in zip(moves, wanted, strict=True):
        if row.reason not in (move.reason, *(("unknown",) if move.may_be_unknown else ())):
            yield f"{_told(row)}: not {move.reason}"
        elif row.unclean not in move.unclean:
            yield (
                f"{_told(row)}: unclean is {row.unclean} and not "
                f"{' or '.join(map(str, move.unclean))}"
            )


def _reason_of_rise(turn: Turn, row: LeaderChange) -> str:
    """The reason where no leader changed.

    One broker left at most: more than one step has another cause too.
    """
    return turn.reason if row.leader_epoch - row.prev_leader_epoch == 1 else "unknown"


def compare_isr(version: Version, windows: Sequence[Window], rows: Sequence[IsrChange]) -> Compared:
    """gold.isr_changes: each broker that left, rejoined or joined an ISR, once, in its step, with
    its cause.

    Before AlterIsr metadata trails the ISR by seconds, so that times are bounds of metadata alone.
    """
    faults = []
    for window in windows:
        found = [row for row in rows if window.has(row.began_before)]
        told = sorted(
            (row.topic, row.partition, row.broker_id, row.change, str(row.cause)) for row in found
        )
        wanted = sorted(
            (*key, broker, change, str(cause))
            for key, turn in window.expected.turns.items()
            for broker, change, cause in turn.isr
        )
        faults += [f"{window}: {fault}" for fault in _differences(told, wanted)]
    faults += [
        f"in no step: {row}"
        for row in rows
        if not any(each.has(row.began_before) for each in windows)
    ]
    exact = len(rows) if version.has_alter_isr else 0
    return Compared("ISR changes", len(rows), _sure(exact, len(rows) - exact), tuple(faults))


@dataclass(frozen=True)
class Incident:
    """A row of gold.broker_incidents."""

    broker_id: int
    partitions: int
    causes: tuple[str, ...]
    worst_level: str


def compare_incidents(wanted: Sequence[Outage], rows: Sequence[Incident]) -> Compared:
    """gold.broker_incidents: one for each broker that was out."""
    told = [(row.broker_id, row.partitions, tuple(row.causes)) for row in rows]
    faults = list(
        _differences(told, [(each.broker_id, each.partitions, each.causes) for each in wanted])
    )
    levels = {each.broker_id: each.worst_levels for each in wanted}
    faults += [
        (
            f"{row}: worst level is {row.worst_level} and not "
            f"{' or '.join(sorted(levels[row.broker_id]))}"
        )
        for row in rows
        if row.worst_level not in levels.get(row.broker_id, {row.worst_level})
    ]
    return Compared("broker incidents", len(rows), _sure(len(rows), 0), tuple(faults))


@dataclass(frozen=True)
class TopicEnd:
    """A row of silver.topic_snapshots that ended."""

    topic: str
    end_reason: str
    valid_to: datetime


def compare_topics(
    version: Version, windows: Sequence[Window], rows: Sequence[TopicEnd]
) -> Compared:
    """silver.topic_snapshots: the one topic that was made again ended.

    Without topic ids it may look deleted.
    """
    reasons = ("recreated",) if version.has_topic_ids else ("recreated", "gone")
    (window,) = (each for each in windows if each.expected.step.action == "recreate")
    faults = [f"{row} and not in {window}" for row in rows if not window.has(row.valid_to)]
    if [row.topic for row in rows] != ["reborn"] or rows[0].end_reason not in reasons:
        told = [(row.topic, row.end_reason) for row in rows]
        faults.append(
            f"topics that ended are {told or 'none'} and not reborn, {' or '.join(reasons)}"
        )
    known = len(rows) if version.has_topic_ids else 0
    return Compared("topics recreated", len(rows), _sure(known, len(rows) - known), tuple(faults))


def compare_rebalances(
    group: str, wanted: Sequence[Rebalanced], rows: Sequence[Rebalance]
) -> Compared:
    """gold.rebalances of one group, in order: who came and went, why; no generation missing."""
    mine = [row for row in rows if row.group_id == group]
    faults = []
    told = [
        (row.members_joined, row.members_left, tuple(sorted(row.reasons or ()))) for row in mine
    ]
    asked = [(each.joined, each.left, tuple(sorted(each.reasons))) for each in wanted]
    if len(told) != len(asked):
        faults.append(
            f"{group}: {len(told)} rebalances and not {len(asked)}: {'; '.join(map(str, mine))}"
        )
    else:
        faults += [
            f"{group}: {row}: joined, left and reasons are {one} and not {other}"
            for row, one, other in zip(mine, told, asked, strict=True)
            if one != other
        ]
    for number, row in enumerate(mine, 1):
        if row.group_type == CLASSIC and row.generation != number:
            faults.append(f"{group}: generation {row.generation} and not {number}")
        if number > 1 and row.prev_generation != mine[number - 2].generation:
            faults.append(f"{group}: {row} does not follow the one before")
        if row.end_reason != ("completed" if number < len(mine) else "emptied"):
            faults.append(f"{group}: {row} ended as {row.end_reason}")
    known = sum(row.reasons is not None for row in mine)
    return Compared(
        f"rebalances of {group}", len(mine), _sure(known, 0, len(mine) - known), tuple(faults)
    )


def compare_moves(
    version: Version, group: str, wanted: Sequence[tuple[int, int]], told: Sequence[tuple[int, int]]
) -> Compared:
    """gold.group_events of one group: moves of its coordinator, each once, from a broker to
    another.

    With ZooKeeper it may be seen gone before another one is elected: see model.Turn.
    """
    moves: list[tuple[int, int]] = []
    for one, other in told:
        if version.zookeeper and moves and one == NO_LEADER == moves[-1][1]:
            moves[-1] = (moves[-1][0], other)
        else:
            moves.append((one, other))
    faults = (
        ()
        if moves == list(wanted)
        else (f"{group}: coordinators moved {list(told)} and not {list(wanted)}",)
    )
    return Compared(f"coordinator moves of {group}", len(told), _sure(len(told), 0), faults)


@dataclass(frozen=True)
class PollSeen:
    """A header of bronze: whether it was good, and what each kind of enrichment came to."""

    received_at: datetime
    is_good: bool
    outcomes: Mapping[str, str]


def compare_polls(
    windows: Sequence[Window], polls: Sequence[PollSeen], kinds: Iterable[str]
) -> Compared:
    """bronze.metadata_polls: a good poll for each step, and these kinds are answered while all
    brokers lead what they led.

    That no time was left says something of this machine, and nothing of the version.
    """
    faults = [
        (
            f"{window}: no good poll came between its end and the next step: nothing is proven by "
            "this run"
        )
        for window in windows
        if not any(
            poll.is_good and window.settled_at <= poll.received_at < window.ended_at
            for poll in polls
        )
    ]
    moving = [
        each for each in windows if each.expected.step.action in ("stop", "kill", "start", "elect")
    ]
    calm = [poll for poll in polls if not any(each.has(poll.received_at) for each in moving)]
    for kind in kinds:
        said = {poll.outcomes[kind] for poll in calm if kind in poll.outcomes}
        refused = [
            each
            for each in sorted(said)
            if not is_answered(each) and "put off" not in each and "in time" not in each
        ]
        if refused or not any(map(is_answered, said)):
            faults.append(
                f"{kind}, with all brokers in their places: "
                f"{'; '.join(refused) or 'never answered'}"
            )
    good = sum(poll.is_good for poll in polls)
    return Compared("polls", len(polls), f"{good} good", tuple(faults))


def _differences(told: Iterable[Any], wanted: Iterable[Any]) -> Iterator[str]:
    told, wanted = list(told), list(wanted)
    for each in told:
        if each in wanted:
            wanted.remove(each)
        else:
            yield f"too much: {each}"
    yield from (f"missing: {each}" for each in wanted)


def _by_partition(rows: Iterable[LeaderChange]) -> dict[Key, list[LeaderChange]]:
    found: dict[Key, list[LeaderChange]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.began_before):
        found[row.topic, row.partition].append(row)
    return found


def _sure(exact: int, bounded: int, unknown: int = 0) -> str:
    said = [
        f"{count} {name}"
        for count, name in ((exact, "exact"), (bounded, "bounded"), (unknown, "unknown"))
        if count
    ]
    return ", ".join(said)


def _told(row: LeaderChange) -> str:
    return (
        f"{row.topic}-{row.partition} {row.prev_leader} to {row.leader} in epochs "
        f"{row.prev_leader_epoch} to {row.leader_epoch}, {row.reason}, {row.epoch_semantics} "
        f"{row.changes_min} to {row.changes_max}"
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
