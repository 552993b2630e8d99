"""Rounds of one cluster in memory, held as one or, when it is large, with the little that
jobs/rounds/large.py lets its fold see.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobs.configuration.config import Thresholds
from jobs.rules import round as rules
from jobs.rules.gold.news import TIMES
from jobs.rules.round import GOLD, SILVER, ClusterInput, RoundSettings
from jobs.rules.silver.cluster import poll_of
from jobs.rules.silver.compare import first_rows, narrow, to_look_at
from jobs.rules.silver.enrichments import headers_of, min_isr_of_changed
from jobs.rules.silver.state import Observation, State
from jobs.rules.takes import Take, take
from schemas import gold, silver
from schemas.internal import STATE
from schemas.table import PART, Table
from tests.support.histories import START
from tests.support.silver_rounds import (
    HEADERS,
    LIVE_PARTITIONS,
    LIVE_TOPICS,
    PARTITIONS,
    SAID,
    TOPICS,
)

Row = dict[str, Any]
CONFIGS = silver.TOPIC_CONFIGS.full_name
KEYS = {table.full_name: table.key for table in (*silver.TABLES, *gold.TABLES)}
SETTINGS = RoundSettings(frozenset({SILVER, *GOLD}), Thresholds(), START)
_TIME = pa.timestamp("us", tz="UTC")
_ARROW = {
    **dict.fromkeys(
        ("cluster_id", "cluster", "first_poll", "prev_poll", "last_poll", "superseded_poll"),
        pa.string(),
    ),
    **{f.name: f.type for f in LIVE_PARTITIONS},
    **{f"prev_{f.name}": f.type for f in LIVE_PARTITIONS},
    **dict.fromkeys(
        ("valid_from", "prev_sent_at", "last_seen_at", "last_seen_sent_at", "valid_to"), _TIME
    ),
    **dict.fromkeys(("interval_ms", "from_offset", "to_offset"), pa.int64()),
    "end_reason": pa.string(),
}
OF_A_RUN = frozenset({PART, "updated_at"})
"""Columns that differ from run to run."""
FIRST = pa.schema(
    [
        (column.name, _ARROW[column.name])
        for column in silver.PARTITION_SNAPSHOTS.columns
        if column.name not in {"is_current", "part"}
    ]
)


@dataclass
class Rounds:
    """The tables of one cluster, and its states, as far as rounds have brought them."""

    alias: str
    claimed_id: str
    kind: str = "kafka"
    settings: RoundSettings = SETTINGS
    tables: dict[str, dict[tuple, Row]] = field(default_factory=lambda: defaultdict(dict))
    states: dict[str, Row] = field(default_factory=dict)
    headers: dict[str, Row] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    """How many rows of partitions each fold was given."""

    def catch_up(self, bronze: Sequence[Row], most_polls: int) -> None:
        """Make rounds until no header is left."""
        self.headers |= {header["poll_id"]: header for header in headers_of(bronze)}
        while True:
            state = self.state
            each = take(
                self.alias,
                state,
                self.parts,
                list(self._waiting(state)),
                claimed_id=self.claimed_id,
                most_polls=most_polls,
                kind=self.kind,
            )
            if self._lacks_gold():
                self._make(Take(self.alias, self.claimed_id, {}, (), self.parts), [])
            elif each.polls.keys() - set(state.waiting):
                self._make(each, bronze)
            else:
                return

    @property
    def state(self) -> State:
        row = self.states.get(SILVER)
        return State() if row is None else State.from_json(rules.json.loads(row["memory"]))

    @property
    def parts(self) -> int:
        return self.states[SILVER]["parts"] if SILVER in self.states else 1

    def _waiting(self, state: State) -> list[Row]:
        waiting = set(state.waiting)
        return [
            header
            for poll_id, header in sorted(self.headers.items())
            if poll_id in waiting or header["n"] > state.seen.get(header["stream"], -1)
        ]

    def _lacks_gold(self) -> bool:
        is_done = SILVER in self.states and self.states[SILVER]["done_poll"] is not None
        return is_done and not self.states.keys() >= GOLD.keys()

    def _make(self, each: Take, bronze: Sequence[Row]) -> None:
        said = [
            row
            for row in bronze
            if row["poll_id"] in each.polls
            and row["record"] in {"poll", "answer", *each.polls[row["poll_id"]]}
        ]
        live, first = self._live(), []
        if each.is_large and not each.polls:
            live[PARTITIONS] = _summed(
                list(self.tables[PARTITIONS].values()), list(self.tables[CONFIGS].values())
            )
        elif each.is_large:
            live, said, first = self._narrowed(each, live, said)
        self.seen.append(len(live.get(PARTITIONS, ())))
        taken = ClusterInput(
            self.alias,
            self.claimed_id,
            each.parts,
            said,
            live,
            self.states,
            is_first=each.first_poll is not None,
            kind=each.kind,
        )
        made = rules.fold(taken, self.settings)
        for row in made.pop(STATE.full_name):
            self.states[row["history"]] = row
        for table, rows in made.items():
            self.tables[table].update(
                {tuple(row[name] for name in KEYS[table]): row for row in rows}
            )
        self.tables[PARTITIONS].update(
            {tuple(row[name] for name in KEYS[PARTITIONS]): row for row in first}
        )

    def _live(self) -> dict[str, list[Row]]:
        """Live rows, and what gold has not had yet."""
        done = min(
            (self.states[name]["done_poll"] or "" if name in self.states else "" for name in GOLD),
            default="",
        )
        snapshots = {table.full_name for table in silver.SNAPSHOTS}

        def is_brought(table: str, row: Row) -> bool:
            if table in snapshots:
                return (
                    row["valid_to"] is None
                    or row["first_poll"] > done
                    or row["superseded_poll"] > done
                )
            return row.get("is_live", row.get("valid_to") is None)

        return {
            table: [row for row in rows.values() if is_brought(table, row)]
            for table, rows in self.tables.items()
            if table != silver.POLL_GAPS.full_name
        }

    def _narrowed(
        self, each: Take, live: dict[str, list[Row]], said: list[Row]
    ) -> tuple[dict[str, list[Row]], list[Row], list[Row]]:
        topics = [row for row in said if row["record"] == "topic"]
        others = [row for row in said if row["record"] != "topic"]
        if each.first_poll:
            header = self.headers[each.first_poll]
            of_cluster = {"cluster_id": self.claimed_id, "cluster": self.alias}
            batches = pa.Table.from_pylist(topics, schema=SAID).to_batches(max_chunksize=2)
            place = Observation(poll_of(header), None)
            first = [
                first_rows(
                    place, header["api_version"], batch, of_cluster, FIRST, kind=each.kind
                ).to_pylist()
                for batch in batches
            ]
            told = [*others, *(row | {"partitions": None} for row in topics)]
            return live, told, [row for of in first for row in of]
        read = [poll_id for poll_id, records in each.polls.items() if "topic" in records]
        headers = pa.Table.from_pylist(
            [self.headers[poll_id] for poll_id in sorted(read)], schema=HEADERS
        )
        current = {
            table: [row for row in live.get(table, ()) if row["valid_to"] is None]
            for table in (TOPICS, PARTITIONS)
        }
        part = (
            pa.Table.from_pylist(topics, schema=SAID),
            pa.Table.from_pylist(current[TOPICS], schema=LIVE_TOPICS),
            pa.Table.from_pylist(current[PARTITIONS], schema=LIVE_PARTITIONS),
        )
        chunk_0 = pa.Table.from_pylist([row for row in topics if row["chunk"] == 0], schema=SAID)
        names = set(to_look_at(self.state, headers, chunk_0, part[1], each.kind).to_pylist())
        told, _, partitions = narrow(
            self.state,
            headers,
            *(
                rows.filter(
                    pa.array([name in names for name in rows["topic"].to_pylist()], pa.bool_())
                )
                for rows in part
            ),
            kind=each.kind,
        )
        configs = [poll_id for poll_id, records in each.polls.items() if "configs" in records]
        min_isr = min_isr_of_changed(
            configs,
            [row for row in said if row["record"] == "configs"],
            [row for row in live.get(CONFIGS, ()) if row["valid_to"] is None],
        )
        kept = {(row["topic"], row["partition"]) for row in partitions.to_pylist()}
        done = min((self.states[name]["done_poll"] for name in GOLD), default="")
        behind = _min_isr(row for row in live.get(CONFIGS, ()) if _is_later(row, done))
        brought = [
            row
            for row in live.get(PARTITIONS, ())
            if _is_later(row, done)
            or (row["topic"], row["partition"]) in kept
            or len(row["isr"] or range(99))
            <= max(min_isr.get(row["topic"], -1), behind.get(row["topic"], -1))
        ]
        live = live | {
            PARTITIONS: brought,
            TOPICS: [row for row in live.get(TOPICS, ()) if row["topic"] in names],
        }
        return live, [*others, *told.to_pylist()], []


def _is_later(row: Row, done: str) -> bool:
    return row["first_poll"] > done or (row["superseded_poll"] or "") > done


def _min_isr(settings: Any) -> dict[str, int]:
    highest: dict[str, int] = {}
    for row in settings:
        for name in ("min_insync_replicas", "prev_min_insync_replicas"):
            if row[name] is not None:
                highest[row["topic"]] = max(row[name], highest.get(row["topic"], -1))
    return highest


def _summed(rows: list[Row], settings: list[Row]) -> list[Row]:
    """As jobs.rounds.large sums them."""
    min_isr = _min_isr(settings)
    same: dict[tuple, Row] = {}
    kept = []
    for row in rows:
        is_quiet = (
            row["prev_error_code"] is None
            and row["superseded_poll"] is None
            and (row["leader"] or 0) >= 0
            and (row["isr"] is None or sorted(row["replicas"]) == row["isr"])
            and (row["isr"] is None or len(row["isr"]) > min_isr.get(row["topic"], -1))
        )
        if not is_quiet:
            kept.append(row)
            continue
        of = same.setdefault(
            (row["first_poll"], row["leader"], (row["replicas"] or (None,))[0], row["error_code"]),
            row | {TIMES: 0},
        )
        of[TIMES] += 1
    return [*kept, *same.values()]


def tables_of(
    bronze: Iterable[Row], kinds: Mapping[str, str] | None = None, at: datetime = START
) -> dict[Table, list[Row]]:
    """The rows of all tables of polls' history that the rules make of these rows of bronze, without
    Spark; and the states after it. `kinds`: by alias. `at`: when the rounds are.
    """
    of_clusters: dict[str, list[Row]] = defaultdict(list)
    for row in bronze:
        of_clusters[row["cluster"]].append(row)
    found: dict[Table, list[Row]] = {table: [] for table in (*silver.TABLES, *gold.TABLES, STATE)}
    for alias, rows in of_clusters.items():
        claimed_id = next(
            row["cluster_id"] for row in rows if row["record"] == "poll" and row["outcome"] == "ok"
        )
        made = Rounds(
            alias, claimed_id, (kinds or {}).get(alias, "kafka"), replace(SETTINGS, at=at)
        )
        made.catch_up(rows, 60)
        for table in (*silver.TABLES, *gold.TABLES):
            found[table] += made.tables[table.full_name].values()
        found[STATE] += [row | {"round": 1} for row in made.states.values()]
    return found


def in_memory(
    bronze: Iterable[Row], kinds: Mapping[str, str] | None = None
) -> dict[str, list[str]]:
    """The same as tests.support.lakes.rows_of has the rows of a lake without OF_A_RUN, by the
    table's name.
    """
    return {
        table.full_name: as_text(table, rows)
        for table, rows in tables_of(bronze, kinds).items()
        if table is not STATE
    }


def as_text(table: Table, rows: Iterable[Row]) -> list[str]:
    """Rows of a table without OF_A_RUN."""
    names = [name for name in table.column_names if name not in OF_A_RUN]
    told = ({name: row.get(name) for name in names} for row in rows)
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in told)
