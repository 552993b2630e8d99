"""Rounds of one cluster in memory, held as one or, when it is large, with the little that
jobs/rounds/large.py lets its fold see.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobs.rounds.large import IS_QUIET
from jobs.rounds.stage import arrow_schema
from jobs.rules.gold.news import TIMES
from jobs.rules.round import GOLD, SILVER, RoundSettings
from jobs.rules.silver.cluster import poll_of
from jobs.rules.silver.compare import first_rows, narrow
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.opened import MIN_ISR, opened
from jobs.rules.silver.state import Observation
from jobs.rules.takes import Take, take
from schemas import gold, silver
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.table import PART, Table
from tests.support.cluster_stage import SETTINGS, ClusterStage, is_later, said_of
from tests.support.histories import START
from tests.support.memory_lake import Frame
from tests.support.silver_rounds import (
    HEADERS,
    LIVE_PARTITIONS,
    LIVE_TOPICS,
    PARTITIONS,
    SAID,
    TOPICS,
)
from tests.support.stage import Row

CONFIGS = silver.TOPIC_CONFIGS.full_name
OF_A_RUN = frozenset({PART, "updated_at"})
"""Columns that differ from run to run."""
_CONFIGS_SAID = pa.schema(
    [
        ("poll_id", pa.string()),
        ("topic", pa.string()),
        arrow_schema(METADATA_POLLS).field("configs"),
    ]
)
_SETTINGS = arrow_schema(silver.TOPIC_CONFIGS)
FIRST = pa.schema([each for each in arrow_schema(silver.PARTITION_SNAPSHOTS) if each.name != PART])


class Rounds(ClusterStage):
    """The tables of one cluster, and its states, as far as rounds have brought them."""

    def __init__(
        self, alias: str, claimed_id: str, kind: str = "kafka", settings: RoundSettings = SETTINGS
    ) -> None:
        super().__init__(settings)
        self.alias, self.claimed_id, self.kind = alias, claimed_id, kind
        self.headers: dict[str, Row] = {}
        self.seen: list[int] = []
        """How many rows of partitions each fold was given."""

    def catch_up(self, bronze: Sequence[Row], most_polls: int) -> None:
        """Make rounds until no header is left."""
        self.headers |= {header["poll_id"]: header for header in headers_of(bronze)}
        while True:
            headers = [self.headers[poll_id] for poll_id in sorted(self.headers)]
            more = {"claimed_id": self.claimed_id, "most_polls": most_polls, "kind": self.kind}
            each = take(self.alias, self.state, self.parts, self.not_taken(headers), **more)
            if self._lacks_gold():
                self._make(Take(self.alias, self.claimed_id, {}, (), self.parts), [])
            elif each.polls.keys() - set(self.state.waiting):
                self._make(each, bronze)
            else:
                return

    @property
    def parts(self) -> int:
        return self.states[SILVER]["parts"] if SILVER in self.states else 1

    def _lacks_gold(self) -> bool:
        is_done = SILVER in self.states and self.states[SILVER]["done_poll"] is not None
        return is_done and not self.states.keys() >= GOLD.keys()

    def _make(self, each: Take, bronze: Sequence[Row]) -> None:
        live, said, first = self.brought, said_of(each, bronze), []
        if each.is_large and not each.polls:
            settings = list(self.tables[CONFIGS].values())
            live[PARTITIONS] = _summed(list(self.tables[PARTITIONS].values()), settings)
        elif each.is_large:
            live, said, first = self._narrowed(each, live, said)
        self.seen.append(len(live[PARTITIONS]))
        self.make(each, said, live=live)
        self.keep({PARTITIONS: first})

    def _narrowed(
        self, each: Take, live: dict[str, list[Row]], said: list[Row]
    ) -> tuple[dict[str, list[Row]], list[Row], list[Row]]:
        """Live rows and news that the fold of a large cluster gets; rows of a first answer."""
        topics = [row for row in said if row["record"] == "topic"]
        others = [row for row in said if row["record"] != "topic"]
        current = {
            name: [row for row in live[name] if row["valid_to"] is None]
            for name in (TOPICS, PARTITIONS, CONFIGS)
        }
        configs = [row for row in others if row["record"] == "configs"]
        headers = [self.headers[poll_id] for poll_id in sorted(each.polls)]
        found = opened(
            each,
            self.state,
            headers=pa.Table.from_pylist(headers, schema=HEADERS),
            digests=pa.Table.from_pylist([row for row in topics if not row["chunk"]], schema=SAID),
            topics=pa.Table.from_pylist(current[TOPICS], schema=LIVE_TOPICS),
            configs=pa.Table.from_pylist(configs, schema=_CONFIGS_SAID),
            settings=pa.Table.from_pylist(current[CONFIGS], schema=_SETTINGS),
        )
        if each.first_poll:
            return (
                live,
                [*others, *(row | {"partitions": None} for row in topics)],
                [row for of_batch in self._first(each, topics) for row in of_batch],
            )
        is_opened = [row for row in topics if row["topic"] in found.topics]
        told, _, partitions = narrow(
            self.state,
            found.headers,
            pa.Table.from_pylist(is_opened, schema=SAID),
            *(
                pa.Table.from_pylist(
                    [row for row in current[name] if row["topic"] in found.topics], schema=schema
                )
                for name, schema in ((TOPICS, LIVE_TOPICS), (PARTITIONS, LIVE_PARTITIONS))
            ),
            kind=each.kind,
        )
        kept = {(row["topic"], row["partition"]) for row in partitions.to_pylist()}
        done = self.done
        behind = _min_isr(row for row in live[CONFIGS] if is_later(row, done))
        brought = [
            row
            for row in live[PARTITIONS]
            if is_later(row, done)
            or (row["topic"], row["partition"]) in kept
            or len(row["isr"] or range(99))
            <= max(found.min_isr.get(row["topic"], -1), behind.get(row["topic"], -1))
        ]
        of_topics = [row for row in live[TOPICS] if row["topic"] in found.topics]
        live |= {PARTITIONS: brought, TOPICS: of_topics}
        return live, [*others, *told.to_pylist()], []

    def _first(self, each: Take, topics: Sequence[Row]) -> Iterator[list[Row]]:
        """The rows of a first answer, batch by batch."""
        header = self.headers[str(each.first_poll)]
        of_cluster = {"cluster_id": self.claimed_id, "cluster": self.alias}
        place = Observation(poll_of(header), None)
        for batch in pa.Table.from_pylist(list(topics), schema=SAID).to_batches(max_chunksize=2):
            rows = first_rows(
                place, header["api_version"], batch, of_cluster, FIRST, kind=each.kind
            )
            yield rows.to_pylist()


def _min_isr(settings: Any) -> dict[str, int]:
    highest: dict[str, int] = {}
    for row in settings:
        for name in ("min_insync_replicas", "prev_min_insync_replicas"):
            if row[name] is not None:
                highest[row["topic"]] = max(row[name], highest.get(row["topic"], -1))
    return highest


def _summed(rows: list[Row], settings: list[Row]) -> list[Row]:
    """Those that are the same to gold as one, which says for how many it stands."""
    min_isr = _min_isr(settings)
    given = [row | {MIN_ISR: min_isr.get(row["topic"])} for row in rows]
    schema = FIRST.append(pa.field(MIN_ISR, pa.int32()))
    is_quiet = Frame(pa.Table.from_pylist(given, schema)).fulfils(IS_QUIET).to_pylist()
    same: dict[tuple, Row] = {}
    for row in itertools.compress(rows, is_quiet):
        of = same.setdefault(
            (row["first_poll"], row["leader"], (row["replicas"] or (None,))[0], row["error_code"]),
            row | {TIMES: 0},
        )
        of[TIMES] += 1
    return [*(row for row, quiet in zip(rows, is_quiet, strict=True) if not quiet), *same.values()]


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
