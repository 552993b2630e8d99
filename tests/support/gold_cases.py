"""Short lives of a cluster, as rows of silver and of gold: what each poll, or each record of the
controllers' log, shows of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from jobs.rules.ids import log_id
from metadata_source.kinds import KINDS
from tests.support.isr_rounds import CHANGES, EPISODES, folded, wait_for_ever
from tests.support.silver_rows import (
    CLUSTERS,
    CONFIGS,
    ELR,
    LISTED_BROKERS,
    OF_KAFKA,
    PARTITIONS,
    REASSIGNMENTS,
    START,
    TABLES,
    History,
    Line,
    Poll,
    Row,
)

T = ("t", 0)


def led(
    leader: int | None,
    epoch: int | None = 0,
    replicas: str = "123",
    isr: str = "123",
    *,
    error_code: int | None = None,
    topic_id: str | None = "id1",
) -> Row:
    """A partition: brokers as digits. If nobody leads it, the error says so."""
    return {
        "topic_id": topic_id,
        "error_code": (5 if leader == -1 else 0) if error_code is None else error_code,
        "leader": leader,
        "leader_epoch": epoch,
        "replicas": [int(each) for each in replicas],
        "isr": sorted(int(each) for each in isr),
        "offline_replicas": [],
    }


def in_sync(isr: str, replicas: str = "123", leader: int | None = None, **more: Any) -> Row:
    """A partition, led by the first of its ISR."""
    return led(leader or int((isr or "0")[0]) or -1, replicas=replicas, isr=isr, **more)


@dataclass
class Seen:
    """One partition's ISR, or partitions by topic and number, `wait` seconds after the one before.

    A poll shows it, or a record of the controllers' log. Settings, reassignments and `elr`, of
    partition `T` "eligible/last known", are answered 300 ms after the poll.
    """

    partitions: Mapping[tuple[str, int], Row] | str
    wait: float = 10
    brokers: str = "123"
    rack: str = "r"
    adding: str = ""
    min_isr: int | None = None
    level: int | None = 25
    highest: int | None = None
    elr_level: int | None = 0
    elr: str | None = None
    ends: str = "gone"
    interval_ms: int = 10_000
    by_log: bool = False
    kind: str = "kafka"

    def __post_init__(self) -> None:
        if isinstance(self.partitions, str):
            self.partitions = {T: in_sync(self.partitions)}


def history_of(*polls: Seen) -> History:
    """Polls are answered 100 ms after they were sent; records have one time. Racks are named after
    brokers.
    """
    tables = (CLUSTERS, LISTED_BROKERS, CONFIGS, REASSIGNMENTS, PARTITIONS, ELR)
    lines = {name: Line(TABLES[name]) for name in tables}
    accepted, at = [], START
    for n, seen in enumerate(polls):
        at += timedelta(seconds=seen.wait)
        poll = Poll(f"s/{n:012d}", at + timedelta(milliseconds=100), at, seen.interval_ms)
        beside = replace(poll, at=poll.at + timedelta(milliseconds=300), sent_at=poll.at)
        if seen.by_log:
            poll = beside = Poll(log_id("", n), at, at, 0)
        accepted.append(poll)
        told = {
            "metadata_version_level": seen.level,
            "metadata_version_highest": seen.highest,
            "elr_version_level": seen.elr_level,
            "kind": seen.kind,
        }
        lines[CLUSTERS].look(poll, {(): OF_KAFKA | told})
        brokers = {
            (int(b),): {"host": "h", "port": 9092, "rack": f"{seen.rack}{b}"} for b in seen.brokers
        }
        lines[LISTED_BROKERS].look(poll, brokers)
        config = {"min_insync_replicas": seen.min_isr, "unclean_leader_election_enable": False}
        lines[CONFIGS].look(beside, {("t",): config} if seen.min_isr is not None else {})
        adding = {"adding_replicas": [int(each) for each in seen.adding], "removing_replicas": []}
        lines[REASSIGNMENTS].look(beside, {T: adding} if seen.adding else {})
        lines[PARTITIONS].look(
            poll, seen.partitions, lambda _, seen=seen: seen.ends, KINDS[seen.kind].columns
        )
        if seen.elr is not None:
            lists = [[int(each) for each in part] for part in seen.elr.split("/")]
            told_of = dict(zip(("elr", "last_known_elr"), lists, strict=True))
            lines[ELR].look(beside, {T: told_of})
    return History({name: line.rows for name, line in lines.items()}, accepted)


def polled(
    *polls: Mapping[str, Row],
    levels: tuple[int | None, int | None] = (25, 0),
    elr: str | None = None,
    kind: str = "kafka",
) -> History:
    """Ten seconds apart: states by topic. `elr`: as answered beside the first."""
    of_cluster = {"level": levels[0], "elr_level": levels[1], "kind": kind}
    states = ({(topic, 0): row for topic, row in topics.items()} for topics in polls)
    return history_of(
        *(Seen(each, elr=None if n else elr, **of_cluster) for n, each in enumerate(states))
    )


def second_state(before: Row, after: Row) -> Row:
    """The row of silver of the second of two states of a partition, each of one poll."""
    _, row = history_of(Seen({T: led(0, 0)}), Seen({T: led(0, 1)})).rows[PARTITIONS]
    prev = {f"prev_{name}": value for name, value in before.items() if f"prev_{name}" in row}
    return row | after | prev


# --- ISRs ---


def rows_of(*polls: Seen) -> dict[str, list[Row]]:
    """Rows of gold about ISRs right after the last poll."""
    rows, _ = folded(history_of(*polls), *range(len(polls)))
    return rows


def later(*polls: Seen) -> dict[str, list[Row]]:
    """Rows of gold about ISRs when all that is due is decided."""
    return wait_for_ever(history_of(*polls))


def departures(rows: Mapping[str, list[Row]], *names: str) -> list[tuple[object, ...]]:
    found = sorted(rows[CHANGES], key=lambda row: (row["poll"], row["broker_id"]))
    return [
        tuple(row[name] for name in names)
        for row in found
        if row["change"] in {"left", "initially_out"}
    ]


def episodes(rows: Mapping[str, list[Row]], *names: str) -> list[tuple[object, ...]]:
    """Of each episode its level, and these columns."""
    found = sorted(rows[EPISODES], key=lambda row: (row["poll"], row["level"]))
    return [(row["level"], *(row[name] for name in names)) for row in found]


# --- against plainer rules ---


def assert_same(found: list[Row], expected: list[Row], *more: str) -> None:
    """Rows are those of plainer rules. `more`: columns that these leave out."""
    if expected:
        assert {name for row in found for name in row} == {*expected[0], *more}
    names = list(expected[0]) if expected else []
    one, other = (
        sorted(repr([row[name] for name in names]) for row in rows) for rows in (found, expected)
    )
    assert one == other
