"""Rounds of the stage around the silver fold, in memory: bronze rows in, tables of silver out."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from jobs.rules.silver.cluster import WITNESSES, fold, records_to_read
from jobs.rules.silver.compare import narrow
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Poll, State
from schemas import gold, silver
from tests.support.stage import Row, Rows, Stage, comparable

TOPICS, PARTITIONS = silver.TOPIC_SNAPSHOTS.full_name, silver.PARTITION_SNAPSHOTS.full_name
STALE = gold.STALE_BROKERS.full_name

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


class Lake(Stage):
    """Silver of one cluster. `narrowed`: its rounds see what rounds of large clusters do."""

    def __init__(self, alias: str, narrowed: bool = False, kind: str = "kafka") -> None:
        super().__init__(self._folded, (*silver.TABLES, gold.STALE_BROKERS))
        self.alias, self.narrowed, self.kind = alias, narrowed, kind
        self.polls: list[Poll] = []
        self.looked_at = 0
        """Live partitions that were given to the fold."""

    @property
    def state(self) -> State | None:
        return None if self.memory is None else State.from_json(json.loads(self.memory))

    def take(
        self,
        bronze: Sequence[Row],
        new: Iterable[str],
        claimed_id: str | None,
        *,
        believe: bool = False,
    ) -> None:
        """One round: new polls by id, and those that wait, read again from bronze."""
        state = self.state
        ids = {*new, *(state.waiting if state else ())}
        headers = headers_of(row for row in bronze if row["poll_id"] in ids)
        wanted = records_to_read(state, headers, claimed_id, self.kind)
        said = [row for row in bronze if row["record"] in wanted.get(row["poll_id"], ())]
        live = {
            table: [row | {"is_current": True} for row in rows]
            for table, rows in self.live.items()
            if table not in {silver.POLL_GAPS.full_name, STALE}
        }
        # A stage brings these rows where headers tell of other brokers.
        if any(WITNESSES in records for records in wanted.values()):
            live[STALE] = self.live[STALE]
        if self.narrowed:
            live, said = self._narrow(
                [h for h in headers if "topic" in wanted.get(h["poll_id"], ())], live, said
            )
        self.looked_at += len(live.get(PARTITIONS, ()))
        (polls,) = super().take(headers, said, claimed_id, live=live, believe=believe)
        self.polls += polls

    def _folded(self, memory: Any, live: Rows, *news: Any, believe: bool) -> tuple[Any, ...]:
        state = None if memory is None else State.from_json(memory)
        made = fold(state, live, *news, kind=self.kind, believe=believe)
        remembered = made.state.to_json()
        assert State.from_json(json.loads(json.dumps(remembered))) == made.state
        return remembered, made.rows, made.polls

    def _narrow(
        self, headers: list[Row], live: dict[str, list[Row]], said: list[Row]
    ) -> tuple[dict[str, list[Row]], list[Row]]:
        """Before the fold, as with large clusters: two parts by the hash of the topic."""
        kept = [row for row in said if row["record"] != "topic"]
        rest = dict(live)
        rest[TOPICS], rest[PARTITIONS] = [], []
        for part in range(2):

            def of(rows: Iterable[Row], part: int = part) -> list[Row]:
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
        return comparable({table: rows.values() for table, rows in self.tables.items()})
