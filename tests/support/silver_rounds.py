"""Rounds of the stage around the silver fold, in memory: bronze rows in, tables of silver out."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from jobs.rules.silver.cluster import WITNESSES, fold, records_to_read
from jobs.rules.silver.compare import narrow
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Poll, State
from schemas import gold, silver

TOPICS, PARTITIONS = silver.TOPIC_SNAPSHOTS.full_name, silver.PARTITION_SNAPSHOTS.full_name
STALE = gold.STALE_BROKERS.full_name
KEYS = {table.full_name: table.key for table in (*silver.TABLES, gold.STALE_BROKERS)}

_INTS = pa.list_(pa.int32())
_STRUCT = pa.struct(
    [
        *((name, pa.int32()) for name in ("partition", "error_code", "leader", "leader_epoch")),
        *((name, _INTS) for name in ("replicas", "isr", "offline_replicas")),
    ]
)
SAID = pa.schema(
    [
        *((name, pa.string()) for name in ("poll_id", "record", "topic", "topic_id")),
        *(
            (name, pa.int32())
            for name in ("chunk", "error_code", "partition_count", "digest_version")
        ),
        *((name, pa.bool_()) for name in ("present", "is_internal")),
        ("digest", pa.binary()),
        ("partitions", pa.list_(_STRUCT)),
    ]
)
LIVE_TOPICS = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "topic_id", "first_poll")),
        *((name, pa.int32()) for name in ("error_code", "partition_count")),
    ]
)
LIVE_PARTITIONS = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "topic_id", "first_poll")),
        *((f.name, f.type) for f in _STRUCT),
    ]
)
HEADERS = pa.schema(
    [("poll_id", pa.string()), ("is_key_frame", pa.bool_()), ("api_version", pa.int32())]
)


@dataclass
class Lake:
    """Silver of one cluster, as far as rounds have brought it."""

    alias: str
    narrowed: bool = False
    kind: str = "kafka"
    state: State | None = None
    tables: dict[str, dict[tuple, dict[str, Any]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    polls: list[Poll] = field(default_factory=list)
    looked_at: int = 0  # live partitions that were given to the fold

    def take(
        self,
        bronze: Sequence[dict[str, Any]],
        new: Iterable[str],
        claimed_id: str | None,
        *,
        believe: bool = False,
    ) -> None:
        """One round: new polls by id, and those that wait, read again from bronze."""
        ids = {*new, *(self.state.waiting if self.state else ())}
        headers = headers_of(row for row in bronze if row["poll_id"] in ids)
        wanted = records_to_read(self.state, headers, claimed_id, self.kind)
        said = [row for row in bronze if row["record"] in wanted.get(row["poll_id"], ())]
        live = {
            table: [row | {"is_current": True} for row in rows.values() if row["valid_to"] is None]
            for table, rows in self.tables.items()
            if table not in {silver.POLL_GAPS.full_name, STALE}
        }
        # A stage brings these rows where headers tell of other brokers.
        if any(WITNESSES in records for records in wanted.values()):
            live[STALE] = [row for row in self.tables[STALE].values() if row["is_live"]]
        if self.narrowed:
            live, said = self._narrow(
                [h for h in headers if "topic" in wanted.get(h["poll_id"], ())], live, said
            )
        self.looked_at += len(live.get(PARTITIONS, ()))
        folded = fold(self.state, live, headers, said, claimed_id, kind=self.kind, believe=believe)
        again = fold(self.state, live, headers, said, claimed_id, kind=self.kind, believe=believe)
        assert folded == again, "a fold changes nothing that it is given"
        # What a stage keeps is text.
        self.state = State.from_json(json.loads(json.dumps(folded.state.to_json())))
        assert self.state == folded.state
        self.polls += folded.polls
        for table, rows in folded.rows.items():
            keyed = {tuple(row[name] for name in KEYS[table]): row for row in rows}
            assert len(keyed) == len(rows)
            self.tables[table].update(keyed)

    def _narrow(
        self,
        headers: list[dict[str, Any]],
        live: dict[str, list[dict[str, Any]]],
        said: list[dict[str, Any]],
    ) -> tuple[dict[str, list[dict[str, Any]]], list[dict[str, Any]]]:
        """Before the fold, as with large clusters: two parts by the hash of the topic."""
        kept = [row for row in said if row["record"] != "topic"]
        rest = dict(live)
        rest[TOPICS], rest[PARTITIONS] = [], []
        for part in range(2):

            def of(rows: Iterable[dict[str, Any]], part: int = part) -> list[dict[str, Any]]:
                return [row for row in rows if sum(row["topic"].encode()) % 2 == part]

            told, topics, partitions = narrow(
                self.state or State(),
                pa.Table.from_pylist(headers, schema=HEADERS),
                pa.Table.from_pylist(
                    of(row for row in said if row["record"] == "topic"), schema=SAID
                ),
                pa.Table.from_pylist(of(live.get(TOPICS, ())), schema=LIVE_TOPICS),
                pa.Table.from_pylist(of(live.get(PARTITIONS, ())), schema=LIVE_PARTITIONS),
                kind=self.kind,
            )
            kept += told.to_pylist()
            for table, rows in ((TOPICS, topics), (PARTITIONS, partitions)):
                there = {(row["topic"], row.get("partition")) for row in rows.to_pylist()}
                rest[table] += [
                    row
                    for row in live.get(table, ())
                    if (row["topic"], row.get("partition")) in there
                ]
        return rest, kept

    @property
    def rows(self) -> dict[str, list[str]]:
        """Every row of every table as text that can be compared."""
        return comparable({table: list(rows.values()) for table, rows in self.tables.items()})


def comparable(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Rows as text, in an order; tables without rows left out."""
    return {
        table: sorted(json.dumps(row, sort_keys=True, default=datetime.isoformat) for row in rows)
        for table, rows in tables.items()
        if rows
    }
