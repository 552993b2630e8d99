"""Which log partitions are due though nothing is new (jobs/histories/transactions.py)."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from jobs.histories.transactions import due_keys
from jobs.rounds.history import Context, key_of
from jobs.rounds.left_out import LeftOut
from jobs.rounds.stage import arrow_schema
from schemas.table import Table
from schemas.transactions import LOG_MEMORIES
from tests.support.incident import NOON

LATER = NOON + timedelta(minutes=1)


class Memories:
    def __init__(self, *rows: tuple[str, int, datetime | None]) -> None:
        self._rows = rows

    def of(self, tables: Iterable[Table], _: object) -> dict[Table, pa.Table]:
        names = ("cluster_id", "log_partition", "due_at")
        rows = [dict(zip(names, row, strict=True)) | {"cluster": "prod"} for row in self._rows]
        schema = arrow_schema(LOG_MEMORIES)
        whole = [dict.fromkeys(schema.names) | row for row in rows]
        return {table: pa.Table.from_pylist(whole, schema) for table in tables}


def context_of(*rows: tuple[str, int, datetime | None]) -> Context:
    live: Any = Memories(*rows)
    nothing: Any = None
    return Context(nothing, nothing, live, {}, nothing, LeftOut())


def test_a_partition_is_due_once_it_was_read_to_its_end_later_than_that() -> None:
    context = context_of(("a", 1, NOON), ("a", 2, NOON), ("a", 3, LATER), ("a", 4, None))
    until = {("prod", None): NOON, ("prod", 2): LATER, ("prod", 3): LATER, ("prod", 4): LATER}
    assert due_keys(context, until, {"prod": "a"}) == {key_of("prod", "2")}
    assert due_keys(context, {("prod", None): LATER}, {"prod": "a"}) == {
        key_of("prod", each) for each in ("1", "2")
    }


def test_nothing_is_due_of_a_cluster_that_an_alias_led_to_before() -> None:
    """No fold would see it: it would be due again and again."""
    context = context_of(("old", 1, NOON), ("new", 2, NOON))
    until = {("prod", None): LATER}
    assert due_keys(context, until, {"prod": "new"}) == {key_of("prod", "2")}
    assert due_keys(context, until, {}) == set()
