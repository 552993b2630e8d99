"""The tables that were made of the controllers' log as it was read live, against DumpLogSegments:
all of it, and no more, each change with its offset and its millisecond.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from schemas import gold, silver
from schemas.bronze import CLUSTER_LOG
from schemas.lake import Lake
from schemas.table import Table
from truth.chaos import Entry
from truth.lake import read
from truth.model.states import (
    MIGRATING,
    NO_LEADER,
    BrokerState,
    ConfigChange,
    FeatureLevel,
    PartitionState,
    Term,
    Truth,
)

Told = tuple[Any, ...]
_LEVEL_OF_RECOVERY = 3
"""Of metadata.version: 3.2-IV0."""
NOT_KEPT = frozenset({"compression.type", "segment.bytes"})
"""Settings of ``__consumer_offsets`` whose values history must not have: any setting but a few may
be a secret.
"""


@dataclass
class LogScore:
    """The fate of what the log says, by what it is about."""

    compared: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def compare(self, about: str, found: Iterable[Told], expected: Iterable[Told]) -> None:
        """Note what is in one alone."""
        found, expected = list(found), list(expected)
        self.compared[about] = len(expected)
        if len(found) != len(set(found)):
            self.faults.append(f"{about}: something is there twice")
        self.faults += [
            f"{about}: history lacks {each}" for each in sorted(set(expected) - set(found), key=str)
        ]
        self.faults += [
            f"{about}: the log lacks {each}" for each in sorted(set(found) - set(expected), key=str)
        ]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {about}" for about, count in self.compared.items())
        return f"{counts}; {len(self.faults)} faults"


Rows = Callable[[Table], list[dict[str, Any]]]
"""The rows of a table, in the order of the records that began them."""


def compare_log(lake: Lake, truth: Truth, journal: Sequence[Entry]) -> LogScore:
    """Hold silver and gold of the log against the truth, as far as the log was read."""
    spans = read(lake, CLUSTER_LOG, ["next_offset"], "record = 'span' AND snapshot_offset IS NULL")
    until = max(span["next_offset"] for span in spans)
    score = compare_rows(partial(_rows, lake), truth, until)
    last = journal[-1].ended_at
    unread = [
        each
        for of in truth.partitions.values()
        for each in of
        if each.offset >= until and each.at <= last
    ]
    score.faults += [f"read up to offset {until}, without {each}" for each in unread]
    return score


def compare_rows(rows: Rows, truth: Truth, until: int) -> LogScore:
    """Hold rows of silver and gold against the truth before an offset."""
    states = {
        key: [each for each in of if each.offset < until] for key, of in truth.partitions.items()
    }
    brokers = {
        broker: [each for each in of if each.offset < until] for broker, of in truth.brokers.items()
    }
    score = LogScore()
    for about, table, of_state, of_row in _PARTITION_STATES:
        score.compare(
            about, _found_spans(rows(table), of_row), _spans(states.values(), truth, of_state)
        )
    score.compare(
        "broker states",
        _found_brokers(rows(silver.BROKER_REGISTRATIONS)),
        _brokers(brokers.values()),
    )
    changes = [pair for of in states.values() for pair in pairwise(of)]
    marked = truth.level("metadata.version") >= _LEVEL_OF_RECOVERY
    score.compare(
        "leader changes",
        _found_leaders(rows(gold.LEADER_CHANGES)),
        _leaders(changes, marked=marked),
    )
    score.compare("ISR changes", _found_isr(rows(gold.ISR_CHANGES)), _isr(changes))
    terms = [term for term in truth.terms if term.offset < until]
    score.compare("controllers", _found_terms(rows(gold.CONTROLLER_CHANGES)), _terms(terms))
    score.compare("configurations", _found_configs(rows(silver.CONFIGS)), _configs(truth.configs))
    levels = [level for level in truth.features if level.offset < until]
    score.compare("levels", _found_levels(rows(silver.FEATURES)), _levels(levels))
    return score


def _rows(lake: Lake, table: Table) -> list[dict[str, Any]]:
    found = read(lake, table, table.column_names)
    return sorted(found, key=lambda row: row.get("first_poll") or row["poll"])


def _of_clients(of: PartitionState) -> Told:
    return of.leader, of.leader_epoch, of.isr, of.replicas


def _of_row_of_clients(row: dict[str, Any]) -> Told:
    """Offline replicas follow from brokers' states: a row that changes only these is left out."""
    return row["leader"], row["leader_epoch"], tuple(row["isr"]), tuple(row["replicas"])


def _of_controllers(of: PartitionState) -> Told:
    return of.recovering, tuple(None if each == MIGRATING else each for each in of.directories)


def _of_row_of_controllers(row: dict[str, Any]) -> Told:
    return row["is_recovering"], tuple(row["directories"])


def _eligible(of: PartitionState) -> Told | None:
    return (of.elr, of.last_known_elr) if of.elr or of.last_known_elr else None


def _of_row_of_eligible(row: dict[str, Any]) -> Told:
    return tuple(row["elr"]), tuple(row["last_known_elr"])


def _moves(of: PartitionState) -> Told | None:
    return (of.adding, of.removing) if of.adding or of.removing else None


def _of_row_of_moves(row: dict[str, Any]) -> Told:
    return tuple(row["adding_replicas"]), tuple(row["removing_replicas"])


_PARTITION_STATES: tuple[
    tuple[str, Table, Callable[[PartitionState], Told | None], Callable[[dict[str, Any]], Told]],
    ...,
] = (
    ("states", silver.PARTITION_SNAPSHOTS, _of_clients, _of_row_of_clients),
    ("registrations", silver.PARTITION_REGISTRATIONS, _of_controllers, _of_row_of_controllers),
    ("states of the ELR", silver.PARTITION_ELR, _eligible, _of_row_of_eligible),
    ("reassignments", silver.REASSIGNMENTS, _moves, _of_row_of_moves),
)
"""Name, table, the part of a state that its rows tell (or null), and that part of a row."""


def _spans(
    partitions: Iterable[Sequence[PartitionState]],
    truth: Truth,
    told: Callable[[PartitionState], Told | None],
) -> Iterator[Told]:
    """Each time in which the same was told of a partition: its begin and its end."""
    for states in partitions:
        spans = [(value, next(same)) for value, same in groupby(states, told)]
        if spans:
            first = spans[0][1]
            ends = [
                *(following.at for _, following in spans[1:]),
                truth.ends_at((first.topic_id, first.partition)),
            ]
            for (value, begun), ended_at in zip(spans, ends, strict=True):
                if value is not None:
                    yield begun.topic, begun.partition, begun.offset, begun.at, ended_at, *value


def _found_spans(
    rows: Iterable[dict[str, Any]], told: Callable[[dict[str, Any]], Told]
) -> Iterator[Told]:
    """The times of rows, those that follow each other and say the same as one."""
    ordered = sorted(rows, key=lambda row: (row["topic"], row["partition"], row["first_poll"]))
    begun, before = None, None
    for row in [*ordered, None]:
        follows = before and row and (row["topic"], row["partition"], row["first_poll"]) == (
            before["topic"], before["partition"], before["superseded_poll"]
        )  # fmt: skip
        is_same = follows and before["end_reason"] is None and told(row) == told(before)
        if not is_same:
            if begun is not None:
                times = begun["from_offset"], begun["valid_from"], before["valid_to"]
                yield begun["topic"], begun["partition"], *times, *told(begun)
            begun = row
        before = row


def _brokers(brokers: Iterable[Sequence[BrokerState]]) -> Iterator[Told]:
    for states in brokers:
        for told, same in groupby(
            states, lambda of: (of.registered, of.fenced, of.in_controlled_shutdown)
        ):
            first = next(same)
            if told[0]:
                yield first.broker_id, first.at, *told[1:]


def _found_brokers(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    def told(row: dict[str, Any]) -> Told:
        return row["is_fenced"], row["in_controlled_shutdown"]

    for first in _firsts(rows, lambda row: row["broker_id"], told):
        yield first["broker_id"], first["valid_from"], *told(first)


def _firsts(
    rows: Iterable[dict[str, Any]],
    thing: Callable[[dict[str, Any]], Any],
    told: Callable[[dict[str, Any]], Told],
) -> Iterator[dict[str, Any]]:
    """Of rows of a thing that follow each other and say the same, the first."""
    ordered = sorted(rows, key=lambda row: (str(thing(row)), row["first_poll"]))
    for _, of_thing in groupby(ordered, thing):
        for _, same in groupby(of_thing, told):
            yield next(same)


def _leaders(
    changes: Iterable[tuple[PartitionState, PartitionState]], *, marked: bool
) -> Iterator[Told]:
    for before, after in changes:
        if after.names_leader:
            place = (after.topic_id, after.partition, after.at, after.at)
            leaders = (before.leader, after.leader, before.leader_epoch, after.leader_epoch)
            yield *place, *leaders, _unclean(before, after, marked=marked), 0


def _unclean(before: PartitionState, after: PartitionState, *, marked: bool) -> str:
    """Kafka's own word is ``leaderRecoveryState``, which an unclean election sets where it is not
    set, and nothing else. Where it is set, or is not told (`marked`: from 3.2-IV0 on it is), ISR
    and ELR decide.
    """
    if marked and not before.recovering:
        return "proven" if after.recovering else "no"
    clean = {NO_LEADER, before.leader, *before.isr, *before.elr}
    is_moved = before.adding and not after.adding
    return "no" if after.leader in clean or is_moved else "proven"


def _found_leaders(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    names = (
        "prev_leader",
        "leader",
        "prev_leader_epoch",
        "leader_epoch",
        "unclean",
        "changes_hidden",
    )
    for row in rows:
        yield _place(row) + tuple(row[name] for name in names)


def _isr(changes: Iterable[tuple[PartitionState, PartitionState]]) -> Iterator[Told]:
    for before, after in changes:
        for broker in sorted(set(before.isr) ^ set(after.isr)):
            yield after.topic_id, after.partition, after.at, after.at, broker, broker in before.isr


def _found_isr(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    for row in rows:
        if row["change"] != "initially_out":
            yield *_place(row), row["broker_id"], row["change"] == "left"


def _configs(changes: Iterable[ConfigChange]) -> Iterator[Told]:
    """The begin of each value.

    Nobody changes one here; they go with their topic, and come back with the next one.
    """
    for each in changes:
        if each.value is not None:
            value = None if each.name in NOT_KEPT else each.value
            yield each.at, each.resource_type, each.resource, each.name, value


def _found_configs(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    for row in rows:
        yield (
            row["valid_from"],
            row["resource_type"],
            row["resource_name"],
            row["name"],
            row["value"],
        )


def _terms(terms: Iterable[Term]) -> Iterator[Told]:
    for before, after in pairwise([None, *terms]):
        if after is not None:
            yield (
                after.at,
                after.epoch,
                after.controller_id,
                before and before.epoch,
                before and before.controller_id,
            )


def _found_terms(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    for row in rows:
        before = row["prev_controller_epoch"], row["prev_controller_id"]
        yield row["began_before"], row["controller_epoch"], row["controller_id"], *before


def _levels(levels: Iterable[FeatureLevel]) -> Iterator[Told]:
    """A level of 0 is none."""
    for level in levels:
        if level.level:
            yield level.offset, level.at, level.name, level.level


def _found_levels(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    for row in rows:
        yield row["from_offset"], row["valid_from"], row["name"], row["level"]


def _place(row: dict[str, Any]) -> tuple[str, int, datetime, datetime]:
    return row["topic_id"], row["partition"], row["began_after"], row["began_before"]
