"""Rounds of the fold of the controllers' log, in memory."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from jobs.rules.log.fold import fold
from jobs.rules.log.needed import needed
from jobs.rules.log.silver import TABLES
from jobs.rules.log.state import State
from jobs.rules.silver.state import Poll
from schemas import gold, silver
from tests.support.stage import Row, Rows, Stage

_EVENTS = gold.OF_LOG
_ALL = (*TABLES, silver.HISTORY_SOURCES, *_EVENTS)
KEYS = {table.full_name: table.key for table in _ALL}
COLUMNS = {table.full_name: set(table.column_names) for table in _ALL}
NEVER_CHANGE = {table.full_name for table in _EVENTS}

_TEXT, _NUMBER = pa.string(), pa.int32()
LOOKED_AT = {
    **dict.fromkeys(("topic", "topic_id", "resource_name"), _TEXT),
    **dict.fromkeys(("partition", "resource_type"), _NUMBER),
    "replicas": pa.list_(_NUMBER),
}
"""The columns of live rows by which `needed` tells them apart."""

_OF_PARTITION = pa.struct({"topic_id": _TEXT, "partition": _NUMBER})
_OF_BROKER = pa.struct({"broker_id": _NUMBER})
TOLD = pa.schema(
    {
        "record": _TEXT,
        "went": _TEXT,
        "type": _NUMBER,
        "topic": pa.struct({"topic": _TEXT, "topic_id": _TEXT}),
        "partition": _OF_PARTITION,
        "partition_change": _OF_PARTITION,
        "broker": _OF_BROKER,
        "broker_change": _OF_BROKER,
        "config": pa.struct({"resource_type": _NUMBER, "resource_name": _TEXT, "name": _TEXT}),
    }
)
"""The columns of records by which `needed` tells what they name."""


class LogLake(Stage):
    """Tables of one cluster. `narrowed`: a round is given those live rows alone that it needs.
    `topic_filter`: that of its polls.
    """

    def __init__(self, *, narrowed: bool = False, topic_filter: str | None = None) -> None:
        super().__init__(self._folded, _ALL)
        self.narrowed, self.topic_filter = narrowed, topic_filter
        self.static_configs: dict[str, str | None] = {}

    @property
    def state(self) -> State | None:
        return None if self.memory is None else State.from_json(json.loads(self.memory))

    def take(self, records: Sequence[Row], polled: Poll | None = None) -> None:
        """One round."""
        live, state = self.live, self.state
        if self.narrowed and state is not None and state.is_whole and state.tells:
            known = state.topic_filter, state.static_configs
            if known == (self.topic_filter, self.static_configs):
                live = narrow(live, records)
        super().take(records, polled, live=live)

    def _folded(
        self, memory: Any, live: Rows, records: Sequence[Row], polled: Poll | None
    ) -> tuple[Any, ...]:
        state = None if memory is None else State.from_json(memory)
        static = self.static_configs
        made = fold(state, live, records, polled, self.topic_filter, static_configs=static)
        return made.state.to_json(), made.rows

    @property
    def live(self) -> dict[str, list[Row]]:
        return {table: sorted(rows, key=repr) for table, rows in super().live.items()}

    @property
    def rows(self) -> dict[str, list[Row]]:
        """All rows by table, in an order of their own."""
        return {table: sorted(rows.values(), key=repr) for table, rows in self.tables.items()}


def narrow(live: Mapping[str, Sequence[Row]], records: Sequence[Row]) -> dict[str, list[Row]]:
    """The live rows that `needed` leaves."""
    tables = {
        table: pa.Table.from_pylist(
            [{"row": number} | row for number, row in enumerate(rows)],
            pa.schema(
                [
                    ("row", pa.int64()),
                    *((name, LOOKED_AT[name]) for name in COLUMNS[table] & LOOKED_AT.keys()),
                ]
            ),
        )
        for table, rows in live.items()
        if table not in NEVER_CHANGE
    }
    left = needed(tables, as_table(records))
    return {
        table: [live[table][number] for number in rows["row"].to_pylist()]
        for table, rows in left.items()
    }


def as_table(records: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(records), TOLD)
