"""A round of one cluster: its polls and its controllers' log become silver, and what is settled of
silver becomes gold.

Each history is a fold of its own (jobs/rules/silver, jobs/rules/gold). Here rows are handed from
one to the next.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from jobs.rules.coordinators import coordinators
from jobs.rules.gold import isr_shrink, leaders
from jobs.rules.gold.news import BROKERS, GoldInput, GoldResult, Row
from jobs.rules.ids import LOG, POLLS
from jobs.rules.log.evidence import with_evidence
from jobs.rules.log.fold import fold as log_fold
from jobs.rules.log.registrations import listed
from jobs.rules.log.state import State as LogState
from jobs.rules.silver.cluster import fold as silver_fold
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.rows import PartitionSnapshot
from jobs.rules.silver.state import Header, State
from jobs.rules.teller import POLLS_ALONE, Teller, handed_over, is_by_log, settled, taken_over
from metadata_source.kafka_constants import OFFSETS_TOPIC
from metadata_source.kinds import KAFKA
from schemas import gold, internal
from schemas.silver import (
    BROKER_REGISTRATIONS,
    COORDINATORS,
    HISTORY_SOURCES,
    OF_LOG,
    PARTITION_SNAPSHOTS,
    POLL_GAPS,
    SNAPSHOTS,
)
from schemas.table import Table

SILVER, CLUSTER_LOG = "silver", "cluster_log"
STATE = internal.STATE.full_name
PARTITIONS = PARTITION_SNAPSHOTS.full_name

Rows = Mapping[str, Sequence[Row]]
"""Rows by table."""

_MADE = (
    *SNAPSHOTS,
    *OF_LOG,
    HISTORY_SOURCES,
    POLL_GAPS,
    gold.STALE_BROKERS,
    *gold.OF_LOG,
)
"""The tables whose rows the folds of polls and of the log make."""

GOLD: Mapping[str, Callable[[Row | None, Rows, GoldInput, Any], GoldResult]] = {
    "isr_shrink": isr_shrink.fold,
    "leader_churn": leaders.fold,
}
"""History of gold -> its fold, by what it remembers, live rows, the news and thresholds."""

_STAMPED = {table.full_name for table in gold.TABLES if "updated_at" in table.column_names}


@dataclass(frozen=True)
class ClusterInput:
    """The input of one cluster's round.

    `said`: rows of bronze, headers among them. `live`: rows by table that may change, and rows of
    silver that gold has not had yet. `states`: rows of internal.state by history. `claimed_id`: the
    cluster id that the alias stands for. `parts`: into how many the cluster's topics are cut.
    `is_first`: the partitions of a large cluster's first answer are not brought
    (silver/compare.py); the next round makes gold of them. `kind`: of the cluster, as declared.
    `log`: rows of bronze.cluster_log, in order. `teller`, `believe`: see takes.Take.
    """

    cluster: str
    claimed_id: str | None
    parts: int
    said: Sequence[Row]
    live: Rows
    states: Mapping[str, Row]
    is_first: bool = False
    kind: str = KAFKA
    log: Sequence[Row] = ()
    teller: Teller = POLLS_ALONE
    believe: bool = False


@dataclass(frozen=True)
class RoundSettings:
    """The settings of all clusters of a round. `at`: when it was planned. `migrating`: the aliases
    of those that are on their way from ZooKeeper to KRaft. `topic_filter`: that of polls, as in
    bronze.
    """

    histories: frozenset[str]
    thresholds: Any
    at: datetime
    migrating: frozenset[str] = frozenset()
    topic_filter: str | None = None


def fold(given: ClusterInput, settings: RoundSettings) -> dict[str, list[Row]]:
    """The rows that a round makes of one cluster, by table; those of internal.state among them."""
    rows: dict[str, list[Row]] = {}
    states: list[Row] = []
    silver = given.states.get(SILVER)
    if SILVER in settings.histories:
        rows, states = _silver(given, settings.topic_filter)
        silver = states[0]
    if silver is None or silver["done_poll"] is None or given.is_first:
        return rows | {STATE: states}
    of_silver = {}
    for table in (*SNAPSHOTS, *OF_LOG):
        of_silver[table.full_name] = _replaced(table, given.live, rows)
    since = min(
        (
            given.states.get(history, {}).get("done_poll") or ""
            for history in GOLD.keys() & settings.histories
        ),
        default="",
    )
    of_silver[PARTITIONS] = with_evidence(of_silver, since)
    of_silver[BROKERS] += listed(of_silver[BROKER_REGISTRATIONS.full_name])
    for table in OF_LOG:
        del of_silver[table.full_name]
    for history in GOLD.keys() & settings.histories:
        before = given.states.get(history, {"done_poll": None, "memory": "null"})
        news = GoldInput.of(
            of_silver,
            before["done_poll"],
            silver["done_poll"],
            silver["done_at"],
            is_migrating=given.cluster in settings.migrating,
        )
        result = GOLD[history](json.loads(before["memory"]), given.live, news, settings.thresholds)
        for table_name, made in result.rows.items():
            stamp = {"updated_at": settings.at} if table_name in _STAMPED else {}
            rows[table_name] = [{**row, **stamp} for row in made]
        told = {
            "done_poll": silver["done_poll"],
            "done_at": silver["done_at"],
            "deadline": result.deadline,
        }
        states.append(_state(history, given, silver["cluster_id"], result.memory, **told))
    return rows | {STATE: states}


def _silver(
    given: ClusterInput, topic_filter: str | None
) -> tuple[dict[str, list[Row]], list[Row]]:
    """Rows of silver, and its rows of internal.state, that of silver first.

    If the log tells when the round begins, its records come first, and then the polls from which on
    polls tell; else the log may take over after the polls that were answered before it was read.
    """
    making = _Making(given, topic_filter)
    read_at = max((row["read_at"] for row in given.log), default=None)
    first, then = given.teller.halves(headers_of(given.said), read_at)
    if given.teller.by_log:
        making.take_records()
        making.take_polls(first)
        if given.teller.polls_from is not None:
            making.hand_over()
    else:
        making.take_polls(first)
        making.take_records()
    making.take_polls(then)
    rows = making.rows
    rows[COORDINATORS.full_name] = _coordinators(
        given.live.get(PARTITIONS, ()), cast("Any", rows.get(PARTITIONS, ()))
    )
    # Of polls that bronze has not kept nobody can say more.
    state = replace(making.state, waiting=()) if given.believe else making.state
    return rows, _states(given, state, making.log, rows)


class _Making:
    """Silver of a cluster while it is made: the memories of both folds, and the rows so far."""

    def __init__(self, given: ClusterInput, topic_filter: str | None) -> None:
        before, log = given.states.get(SILVER), given.states.get(CLUSTER_LOG)
        self.state = State() if before is None else State.from_json(json.loads(before["memory"]))
        self.log = None if log is None else LogState.from_json(json.loads(log["memory"]))
        self.rows: dict[str, list[Row]] = {}
        self._given, self._topic_filter = given, topic_filter

    def take_polls(self, headers: Sequence[Header]) -> None:
        if not headers:
            return
        given, live = self._given, _open(self._given.live, self.rows)
        others = (row for row in given.said if row["record"] not in ("poll", "answer"))
        result = silver_fold(
            self.state,
            live,
            headers,
            others,
            given.claimed_id,
            kind=given.kind,
            by_log=is_by_log(self.log),
            believe=given.believe,
        )
        self.state = result.state
        self._keep(result.rows)

    def take_records(self) -> None:
        given, was_by_log = self._given, is_by_log(self.log)
        if not given.log:
            return
        live = _open(given.live, self.rows)
        state = self.state
        result = log_fold(
            self.log,
            live,
            given.log,
            state.last,
            self._topic_filter,
            answered=state.enriched,
            static_configs=state.static_configs,
        )
        self.log = result.state
        self.state = replace(self.state, cluster_id=self.state.cluster_id or given.claimed_id)
        if is_by_log(self.log) and not was_by_log:
            self.state = taken_over(self.state)
        self._keep(result.rows)

    def hand_over(self) -> None:
        """Let polls tell what the log told."""
        if self.log is not None:
            self.state, self.log = handed_over(self.state, self.log)

    def _keep(self, changed: Mapping[str, Sequence[Row]]) -> None:
        for table in _MADE:
            if of_table := changed.get(table.full_name):
                self.rows[table.full_name] = _by_key(
                    table, (*self.rows.get(table.full_name, ()), *of_table)
                )


def _states(given: ClusterInput, state: State, log: LogState | None, rows: Rows) -> list[Row]:
    """The rows of internal.state of silver, and of the log where there is one."""
    before, last = given.states.get(SILVER), state.last
    changed = [row for of_table in rows.values() for row in of_table if "first_poll" in row]
    observed = [row[name] for row in changed for name in ("first_poll", "superseded_poll")]
    was_done = (None, None) if before is None else (before["done_poll"], before["done_at"])
    done_poll, done_at = settled(state, log, was_done)
    of_silver = _state(
        SILVER,
        given,
        state.cluster_id,
        state.to_json(),
        done_poll=done_poll,
        done_at=done_at,
        changed_poll=max(
            filter(None, [*observed, before and before["changed_poll"]]), default=None
        ),
        last_poll=last and last.id,
        last_seen_at=last and last.at,
        interval_ms=last and last.interval_ms,
        before_seen_at=state.before and state.before.at,
        missing=sorted(state.missing),
        told_by=LOG if is_by_log(log) else POLLS,
        parts=given.parts,
        refused_polls=state.refused_polls,
        stale_polls=len(state.waiting),
        taken=dict(state.seen),
        waiting=list(state.waiting),
        failed_polls=state.failed_polls,
        error_kinds=list(state.error_kinds),
    )
    if log is None:
        return [of_silver]
    read_at = max((row["read_at"] for row in given.log), default=None)
    known = given.states.get(CLUSTER_LOG)
    of_log = _state(
        CLUSTER_LOG,
        given,
        state.cluster_id,
        log.to_json(),
        done_poll=log.last and log.last.id,
        done_at=log.told_at,
        last_seen_at=read_at or (known and known["last_seen_at"]),
    )
    return [of_silver, of_log]


def _coordinators(live: Iterable[Row], changed: Iterable[PartitionSnapshot]) -> list[Row]:
    """Rows of silver.coordinators, by live rows of partitions and those that changed."""
    known = (row for row in live if row["topic"] == OFFSETS_TOPIC and row["valid_to"] is None)
    began = {(row["partition"], row["first_poll"]) for row in known}
    return [dict(row) for row in coordinators(changed, began)]


def _open(live: Rows, changed: Rows) -> dict[str, list[Row]]:
    """Open rows of silver, and live ones of gold.stale_brokers, once some have changed."""
    rows = {
        table.full_name: _replaced(table, live, changed)
        if table.full_name in changed
        else live.get(table.full_name, ())
        for table in _MADE
        if table.live
    }
    return {
        name: [row for row in of_table if row.get("valid_to") is None and row.get("is_live", True)]
        for name, of_table in rows.items()
    }


def _replaced(table: Table, live: Rows, changed: Rows) -> list[Row]:
    """The rows of a table that were there, and in their place those that changed."""
    return _by_key(table, (*live.get(table.full_name, ()), *changed.get(table.full_name, ())))


def _by_key(table: Table, rows: Iterable[Row]) -> list[Row]:
    """The last of the rows of each key."""
    return list({tuple(row[name] for name in table.key): row for row in rows}.values())


def _state(
    history: str, given: ClusterInput, cluster_id: str | None, memory: Row, /, **told: Any
) -> Row:
    """A row of internal.state."""
    of_history = {"history": history, "cluster": given.cluster, "cluster_id": cluster_id}
    text = json.dumps(memory, separators=(",", ":"))
    return {**dict.fromkeys(internal.STATE.column_names), **of_history, "memory": text, **told}
