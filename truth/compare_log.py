"""The tables that were made of the controllers' log as it was read live, against DumpLogSegments: all of it, and no
more, each change with its offset and its millisecond.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any

from pyspark.sql import SparkSession

from schemas import gold, silver
from schemas.bronze import CLUSTER_LOG
from schemas.lake import Lake
from schemas.table import Table
from truth.chaos import Entry
from truth.lake import ALIAS
from truth.log import NO_LEADER, BrokerState, FeatureLevel, PartitionState, Term, Truth

Told = tuple[Any, ...]


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
        self.faults += [f"{about}: history lacks {each}" for each in sorted(set(expected) - set(found), key=str)]
        self.faults += [f"{about}: the log lacks {each}" for each in sorted(set(found) - set(expected), key=str)]

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {about}" for about, count in self.compared.items())
        return f"{counts}; {len(self.faults)} faults"


def compare_log(spark: SparkSession, lake: Lake, truth: Truth, journal: Sequence[Entry]) -> LogScore:
    """Hold silver and gold of the log against the truth, up to where the log was read: past the last step."""
    rows = _Rows(spark, lake)
    read = lake.read(spark, CLUSTER_LOG).where("record = 'span' AND snapshot_offset IS NULL")
    until = max(row.next_offset for row in read.select("next_offset").collect())
    states = {key: [each for each in of if each.offset < until] for key, of in truth.partitions.items()}
    brokers = {broker: [each for each in of if each.offset < until] for broker, of in truth.brokers.items()}
    score = LogScore()
    last = journal[-1].ended_at
    unread = [each for of in truth.partitions.values() for each in of if each.offset >= until and each.at <= last]
    score.faults += [f"read up to offset {until}, without {each}" for each in unread]
    score.compare("states", _found_states(rows(silver.PARTITION_SNAPSHOTS)), _states(states.values()))
    score.compare("broker states", _found_brokers(rows(silver.BROKER_REGISTRATIONS)), _brokers(brokers.values()))
    changes = [pair for of in states.values() for pair in pairwise(of)]
    score.compare("leader changes", _found_leaders(rows(gold.LEADER_CHANGES)), _leaders(changes))
    score.compare("ISR changes", _found_isr(rows(gold.ISR_CHANGES)), _isr(changes))
    terms = [term for term in truth.terms if term.offset < until]
    score.compare("controllers", _found_terms(rows(gold.CONTROLLER_CHANGES)), _terms(terms))
    levels = [level for level in truth.features if level.offset < until]
    score.compare("levels", _found_levels(rows(silver.FEATURES)), _levels(levels))
    return score


@dataclass(frozen=True)
class _Rows:
    spark: SparkSession
    lake: Lake

    def __call__(self, table: Table) -> list[dict[str, Any]]:
        found = self.lake.read(self.spark, table).where(f"cluster = '{ALIAS}'").toArrow().to_pylist()
        return sorted(found, key=lambda row: row.get("first_poll") or row["poll"])


def _states(partitions: Iterable[Sequence[PartitionState]]) -> Iterator[Told]:
    """The begin of each state that clients can tell from the one before."""
    for states in partitions:
        for told, same in groupby(states, lambda of: (of.leader, of.leader_epoch, of.isr, of.replicas)):
            first = next(same)
            yield first.topic_id, first.partition, first.offset, first.at, *told


def _found_states(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    """Offline replicas are derived from brokers' states: a row that changes nothing else is left out."""

    def told(row: dict[str, Any]) -> Told:
        return row["leader"], row["leader_epoch"], tuple(row["isr"]), tuple(row["replicas"])

    for first in _firsts(rows, lambda row: (row["topic_id"], row["partition"]), told):
        yield first["topic_id"], first["partition"], first["from_offset"], first["valid_from"], *told(first)


def _brokers(brokers: Iterable[Sequence[BrokerState]]) -> Iterator[Told]:
    for states in brokers:
        for told, same in groupby(states, lambda of: (of.registered, of.fenced, of.in_controlled_shutdown)):
            first = next(same)
            if told[0]:
                yield first.broker_id, first.at, *told[1:]


def _found_brokers(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    def told(row: dict[str, Any]) -> Told:
        return row["is_fenced"], row["in_controlled_shutdown"]

    for first in _firsts(rows, lambda row: row["broker_id"], told):
        yield first["broker_id"], first["valid_from"], *told(first)


def _firsts(
    rows: Iterable[dict[str, Any]], thing: Callable[[dict[str, Any]], Any], told: Callable[[dict[str, Any]], Told]
) -> Iterator[dict[str, Any]]:
    """Of rows of a thing that follow each other and say the same, the first."""
    ordered = sorted(rows, key=lambda row: (str(thing(row)), row["first_poll"]))
    for _, of_thing in groupby(ordered, thing):
        for _, same in groupby(of_thing, told):
            yield next(same)


def _leaders(changes: Iterable[tuple[PartitionState, PartitionState]]) -> Iterator[Told]:
    for before, after in changes:
        if after.names_leader:
            place = (after.topic_id, after.partition, after.at, after.at)
            leaders = (before.leader, after.leader, before.leader_epoch, after.leader_epoch)
            yield *place, *leaders, _unclean(before, after), 0


def _unclean(before: PartitionState, after: PartitionState) -> str:
    """``leaderRecoveryState`` is set by an unclean election, and by nothing else."""
    clean = {NO_LEADER, before.leader, *before.isr, *before.elr}
    if after.recovering and not before.recovering:
        return "proven"
    is_moved = before.adding and not after.adding
    return "no" if after.leader in clean or is_moved else "proven"


def _found_leaders(rows: Iterable[dict[str, Any]]) -> Iterator[Told]:
    names = ("prev_leader", "leader", "prev_leader_epoch", "leader_epoch", "unclean", "changes_hidden")
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


def _terms(terms: Iterable[Term]) -> Iterator[Told]:
    for before, after in pairwise([None, *terms]):
        if after is not None:
            yield after.at, after.epoch, after.controller_id, before and before.epoch, before and before.controller_id


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
