"""Rows of gold and silver that may belong to an incident, as gold.incident_links has them.

Each file of SQL here makes rows of one kind of source: those that last, or ended since a time. Rows
that are alike are one. A source is read again only once one of its tables was written. A view
stands for the tables that it reads: a round reads each in the version that its plan names.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from jobs.rounds.commit import newest_version
from jobs.rounds.history import Context
from jobs.rounds.stage import arrow_schema
from jobs.rules.ids import POLLS
from jobs.run.side_by_side import side_by_side
from schemas.incidents import INCIDENT_LINKS
from schemas.lake import REFERENCE, TABLES, VIEWS, resolved
from schemas.table import Table

Versions = dict[str, int]
"""Full name of a table -> its version."""

_VIEWS: Final[Mapping[str, str]] = {view.full_name: f"({view.query})" for view in VIEWS}


def _of_tables(sql: str) -> str:
    while (found := resolved(sql, lambda name: _VIEWS.get(name, f"{{{name}}}"))) != sql:
        sql = found
    return sql


_SQL: Final[Mapping[str, str]] = {
    file.stem: _of_tables(file.read_text(encoding="utf-8"))
    for file in sorted(Path(__file__).parent.glob("*.sql"))
}
_TABLES: Final[Mapping[str, Table]] = {table.full_name: table for table in TABLES}
SOURCES: Final = tuple(
    _TABLES[name]
    for name in sorted({name for sql in _SQL.values() for name in REFERENCE.findall(sql)})
)
"""The tables whose rows may belong to an incident."""
COLUMNS: Final = (
    *("cluster_id", "cluster", "kind", "broker_id", "leader", "group_id", "rack", "brokers"),
    *("topic", "partitions", "number", "began_after", "began_before", "ended_after"),
    *("ended_before", "source", "cause", "is_controlled"),
)
_SCHEMA: Final = pa.schema([arrow_schema(INCIDENT_LINKS).field(name) for name in COLUMNS])
_DEFAULTS: Final[Mapping[str, object]] = {"brokers": [], "partitions": 0, "source": POLLS}


@dataclass
class Findings:
    """The rows of each source as they were read last."""

    _versions: Versions = field(default_factory=dict)
    _writes: Mapping[Table, int] = field(default_factory=dict)
    _rows: dict[str, tuple[Versions, datetime, pa.Table]] = field(default_factory=dict)

    def versions(self, context: Context, changed: Collection[str]) -> Versions:
        """The newest version of each table. `changed`: the histories that have something new. If
        this run makes them all, `Run.writes` tells which tables it has written; else all are looked
        at.
        """
        is_new = not self._versions or not context.run.makes.issuperset(changed)
        writes = dict(context.run.writes)
        some = [
            table
            for table in SOURCES
            if is_new or writes.get(table, 0) != self._writes.get(table, 0)
        ]
        self._writes = writes
        find = partial(newest_version, context.spark, context.lake)
        found = side_by_side(find, some)
        self._versions |= {
            table.full_name: version for table, version in zip(some, found, strict=True)
        }
        return dict(self._versions)

    def rows(self, context: Context, versions: Versions, since: datetime) -> pa.Table:
        """The rows of all sources in these versions that last, or ended since a time; perhaps more
        that ended before.
        """

        def of(name: str) -> pa.Table:
            wanted = {table: versions[table] for table in REFERENCE.findall(_SQL[name])}
            known = self._rows.get(name)
            if known is None or known[0] != wanted or since < known[1]:
                known = wanted, since, _read(context, name, wanted, since)
                self._rows[name] = known
            return known[2]

        return pa.concat_tables(side_by_side(of, _SQL))


def _read(context: Context, name: str, versions: Versions, since: datetime) -> pa.Table:
    spark, frames = context.spark, {}
    for table, version in versions.items():
        frames[table] = f"findings_{name}_{table.replace('.', '_')}"
        rows = context.lake.read_version(spark, _TABLES[table], version)
        rows.createOrReplaceTempView(frames[table])
    text = resolved(_SQL[name], frames.__getitem__)
    at = f"TIMESTAMP'{since.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"
    found = spark.sql(text.replace(":since", at)).toArrow()
    columns = []
    for each in _SCHEMA:
        if each.name in found.column_names:
            columns.append(found[each.name].cast(each.type))
        else:
            default = _DEFAULTS.get(each.name)
            columns.append(pa.chunked_array([pa.array([default] * len(found), each.type)]))
    return pa.table(columns, schema=_SCHEMA)
