"""A round of one cluster: its polls become silver, and what is settled of silver becomes gold.

Each history is a fold of its own (jobs/rules/silver, jobs/rules/gold). Here rows are handed from one to the next.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.rules.coordinators import coordinators
from jobs.rules.gold import isr_shrink, leaders
from jobs.rules.gold.news import Folded, News, Row
from jobs.rules.silver import fold as silver_fold
from jobs.rules.silver.state import State
from metadata_source.facts import OFFSETS_TOPIC
from metadata_source.kinds import KAFKA
from schemas import gold, internal
from schemas.silver import COORDINATORS, PARTITION_SNAPSHOTS, SNAPSHOTS

SILVER = "silver"
STATE = internal.STATE.full_name
PARTITIONS = PARTITION_SNAPSHOTS.full_name

Rows = Mapping[str, Sequence[Row]]
"""Rows by table."""

GOLD: Mapping[str, Callable[[Row | None, Rows, News, Any], Folded]] = {
    "isr_shrink": isr_shrink.fold,
    "leader_churn": leaders.fold,
}
"""History of gold -> its fold, from what it remembers, its live rows, the news and the thresholds."""

_STAMPED = {table.full_name for table in gold.TABLES if "updated_at" in table.column_names}


@dataclass(frozen=True)
class Taken:
    """The input of one cluster's round.

    `said`: rows of bronze, headers among them. `live`: rows by table that may change, and rows of silver that gold has
    not had yet. `states`: rows of internal.state by history. `claimed_id`: the cluster id that the alias stands for.
    `parts`: into how many the cluster's topics are cut. `is_first`: the partitions of a large cluster's first answer
    are not brought (silver/compare.py); the next round makes gold of them. `kind`: of the cluster, as declared.
    `signs`: what contradicts it of the partitions that are not brought.
    """

    cluster: str
    claimed_id: str | None
    parts: int
    said: Sequence[Row]
    live: Rows
    states: Mapping[str, Row]
    is_first: bool = False
    kind: str = KAFKA
    signs: Sequence[str] = ()


@dataclass(frozen=True)
class Plan:
    """The settings of all clusters of a round. `at`: when it was planned. `migrating`: the aliases of those that are on
    their way from ZooKeeper to KRaft.
    """

    histories: frozenset[str]
    thresholds: Any
    at: datetime
    migrating: frozenset[str] = frozenset()


def fold(taken: Taken, plan: Plan) -> dict[str, list[Row]]:
    """The rows that a round makes of one cluster, by table; those of internal.state among them."""
    rows: dict[str, list[Row]] = {}
    states: list[Row] = []
    silver = taken.states.get(SILVER)
    if SILVER in plan.histories:
        rows, silver = _silver(taken)
        states.append(silver)
    if silver is None or silver["done_poll"] is None or taken.is_first:
        return rows | {STATE: states}
    of_silver = {}
    for table in SNAPSHOTS:
        # Those that were there, and in their place those that the round changed.
        both = (*taken.live.get(table.full_name, ()), *rows.get(table.full_name, ()))
        of_silver[table.full_name] = list({tuple(row[name] for name in table.key): row for row in both}.values())
    for history in GOLD.keys() & plan.histories:
        before = taken.states.get(history, {"done_poll": None, "memory": "null"})
        news = News.of(
            of_silver,
            before["done_poll"],
            silver["done_poll"],
            silver["done_at"],
            is_migrating=taken.cluster in plan.migrating,
        )
        folded = GOLD[history](json.loads(before["memory"]), taken.live, news, plan.thresholds)
        for table_name, made in folded.rows.items():
            stamp = {"updated_at": plan.at} if table_name in _STAMPED else {}
            rows[table_name] = [row | stamp for row in made]
        told = {"done_poll": silver["done_poll"], "done_at": silver["done_at"], "deadline": folded.deadline}
        states.append(_state(history, taken, silver["cluster_id"], folded.memory, **told))
    return rows | {STATE: states}


def _silver(taken: Taken) -> tuple[dict[str, list[Row]], Row]:
    """Rows of silver, and its row of internal.state."""
    before = taken.states.get(SILVER)
    headers = sorted((row for row in taken.said if row["record"] == "poll"), key=lambda row: row["poll_id"])
    others = (row for row in taken.said if row["record"] != "poll")
    live = {
        table.full_name: [row for row in taken.live.get(table.full_name, ()) if row["valid_to"] is None]
        for table in SNAPSHOTS
    } | {gold.STALE_BROKERS.full_name: taken.live.get(gold.STALE_BROKERS.full_name, ())}
    known = None if before is None else State.from_json(json.loads(before["memory"]))
    folded = silver_fold(known, live, headers, others, taken.claimed_id, kind=taken.kind, signs=taken.signs)
    of_log = {(row["partition"], row["first_poll"]) for row in live[PARTITIONS] if row["topic"] == OFFSETS_TOPIC}
    led = coordinators(folded.rows.get(PARTITIONS, ()), of_log)

    changed = [row for of_table in folded.rows.values() for row in of_table if "first_poll" in row]
    polls = [row[name] for row in changed for name in ("first_poll", "superseded_poll")]
    state, last, settled = folded.state, folded.state.last, folded.state.settled
    row = _state(
        SILVER,
        taken,
        state.cluster_id,
        state.to_json(),
        done_poll=settled and settled.id,
        done_at=settled and settled.at,
        changed_poll=max(filter(None, [*polls, before and before["changed_poll"]]), default=None),
        last_poll=last and last.id,
        last_seen_at=last and last.at,
        interval_ms=last and last.interval_ms,
        before_seen_at=state.before and state.before.at,
        missing=sorted(state.missing),
        parts=taken.parts,
        last_due_at=state.last_poll_at,
        refused_polls=state.refused_polls,
        stale_polls=len(state.waiting),
    )
    return folded.rows | {COORDINATORS.full_name: led}, row


def _state(history: str, taken: Taken, cluster_id: str | None, memory: Row, **told: Any) -> Row:
    """A row of internal.state."""
    of_history = {"history": history, "cluster": taken.cluster, "cluster_id": cluster_id}
    text = json.dumps(memory, separators=(",", ":"))
    return {**dict.fromkeys(internal.STATE.column_names), **of_history, "memory": text, **told}
