"""A lake in memory, on which the engine makes rounds without a JVM: its own code down to the calls
of Spark and of Delta.

A commit does what Delta's does: it replaces what fulfils `replaceWhere`, appends, says what
`userMetadata` says, and is passed over where the table has had its `txnVersion`.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import RLock
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.histories import poll_headers, poll_inputs
from jobs.rounds import appended, commit, engine, lost_rounds, plan, stage
from jobs.rounds.history import KEY, Context, History, News, Output
from jobs.rounds.stage import arrow_schema, failing_as
from jobs.rules.arrow import rows_of
from jobs.run import session
from jobs.run.driver import TableCommit
from schemas import in_spark, silver
from schemas.bronze import METADATA_POLLS
from schemas.in_duckdb import in_duckdb
from schemas.internal import ROUNDS, STATE, STATE_NOW
from schemas.lake import VERSION, Lake
from schemas.table import Table, View
from tests.support.stage import Row

BEGAN = datetime.now(UTC)
"""When the first commit is; the next ones follow by a second."""


_DATABASE = duckdb.connect()


class Frame:
    """Rows as Spark would hold them: conditions are SQL."""

    sparkSession = None  # noqa: N815 - as Spark writes it

    def __init__(self, rows: pa.Table, table: Table | None = None) -> None:
        self.rows = rows
        generated = [each for each in table.columns if each.generated_as] if table else []
        self._generated = "".join(
            f", {in_duckdb(each.generated_as)} AS {each.name}" for each in generated
        )
        self._table = table

    @property
    def columns(self) -> list[str]:
        return list(self.rows.column_names)

    def where(self, condition: str) -> "Frame":
        return Frame(self.rows.filter(self.fulfils(condition)), self._table)

    def select(self, *names: str) -> "Frame":
        return Frame(self.rows.select(list(names)))

    def selectExpr(self, *expressions: str) -> "Frame":  # noqa: N802
        rows = self.rows
        return Frame(_query(f"SELECT {', '.join(map(in_duckdb, expressions))} FROM rows", rows))

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self.rows

    def collect(self) -> list[Any]:
        return [_Collected(**row) for row in rows_of(self.rows)]

    def isEmpty(self) -> bool:  # noqa: N802
        return not len(self.rows)

    def fulfils(self, condition: str) -> pa.ChunkedArray:
        of = f"(SELECT *{self._generated} FROM rows)"
        found = _query(f"SELECT coalesce({in_duckdb(condition)}, false) FROM {of}", self.rows)
        return found.column(0)


class _Collected(SimpleNamespace):
    """A row, by name and by place."""

    def __getitem__(self, place: int) -> Any:
        return [*vars(self).values()][place]

    def __iter__(self) -> Iterator[Any]:
        return iter(vars(self).values())


def _query(sql: str, rows: pa.Table) -> pa.Table:
    with _DATABASE.cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        cursor.register("rows", rows)
        return cursor.sql(sql).to_arrow_table()


class _Commit(SimpleNamespace):
    """`rows`: of the table after it; `added`: by it. `info`: as Delta notes it. `txn`: its name
    and number.
    """


class MemoryLake(Lake):
    """Tables by their commits."""

    def __init__(self) -> None:
        super().__init__(root="/memory")
        empty = {"operation": "CREATE TABLE"}
        self.__dict__["lock"] = RLock()
        self.__dict__["commits"] = defaultdict(
            lambda: [_Commit(rows=None, added=None, info=empty, txn=None)]
        )

    def rows(self, table: Table, version: int = -1) -> pa.Table:
        rows = self.commits[table][version].rows
        return arrow_schema(table).empty_table() if rows is None else rows

    def read(self, spark: Any, table: Table) -> Any:
        return Frame(self.rows(table), table)

    def read_version(self, spark: Any, table: Table, version: int) -> Any:
        return Frame(self.rows(table, version), table)

    def read_appended(self, spark: Any, table: Table, first: int, last: int) -> Any:
        schema = arrow_schema(table).append(pa.field(VERSION, pa.int64()))
        found = [schema.empty_table()]
        for version, each in enumerate(self.commits[table][first : last + 1], first):
            if each.added is not None:
                numbers = pa.repeat(pa.scalar(version, pa.int64()), len(each.added))
                found.append(each.added.append_column(VERSION, numbers))
        return Frame(pa.concat_tables(found))

    def append(self, table: Table, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows of dicts."""
        self.write(table, pa.Table.from_pylist([*rows], arrow_schema(table)), None, {})

    def write(
        self, table: Table, rows: pa.Table, where: str | None, options: Mapping[str, str]
    ) -> None:
        with self.lock:
            txn = (options["txnAppId"], int(options["txnVersion"])) if "txnAppId" in options else ()
            before = self.commits[table]
            had = [each.txn[1] for each in before if txn and each.txn and each.txn[0] == txn[0]]
            if txn and max(had, default=-1) >= txn[1]:
                return
            kept = self.rows(table)
            if where is not None:
                kept = kept.filter(pc.invert(Frame(kept, table).fulfils(where)))
            at = BEGAN + timedelta(seconds=sum(map(len, self.commits.values())))
            info = {"timestamp": int(at.timestamp() * 1000)}
            info |= {name: options[name] for name in ("userMetadata",) if name in options}
            rows = rows.select(table.column_names).cast(arrow_schema(table))
            after = pa.concat_tables([kept, rows]).combine_chunks()
            before.append(_Commit(rows=after, added=rows, info=info, txn=txn))

    def delete(self, table: Table, where: str) -> None:
        self.write(table, arrow_schema(table).empty_table(), where, {})

    def lose(self, table: Table) -> None:
        """Let the newest commit of a table be one that did nothing."""
        lost = self.commits[table][-1]
        lost.rows, lost.added, lost.txn = self.commits[table][-2].rows, None, ()
        lost.info = {"timestamp": lost.info["timestamp"], "operation": "LOST"}

    @property
    def lately_written(self) -> list[Table]:
        """The tables that the last round has written, if it is done."""
        last = self.commits[STATE][-1].info.get("userMetadata", "")
        number = last.partition(" wrote ")[0]
        return [
            table
            for table, of_table in self.commits.items()
            if table is not ROUNDS
            and " wrote " in last
            and of_table[-1].info.get("userMetadata") == number
        ]

    def version_of(self, table: Table, number: int, *, or_later: bool = False) -> int | None:
        for version, each in enumerate(self.commits[table]):
            of = each.info.get("userMetadata", "").removeprefix("round ")
            if of.isdecimal() and (int(of) == number or (or_later and int(of) > number)):
                return version
        return None


def _states_of(
    spark: Any, lake: MemoryLake, before: int | None = None, version: int | None = None
) -> dict[tuple[str, str], Row]:
    rows = rows_of(lake.rows(STATE, -1 if version is None else version))
    newest: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row["round"]):
        if before is None or row["round"] < before:
            newest[row["history"], row["cluster"]] = row
    return {key: row for key, row in newest.items() if row["memory"] is not None}


def _last_done(spark: Any, lake: MemoryLake) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows_of(lake.rows(STATE)):
        found[row["history"]] = max(row["round"], found.get(row["history"], 0))
    return found


def _newest_commit(spark: Any, lake: MemoryLake, table: Table) -> TableCommit:
    version = len(lake.commits[table]) - 1
    return TableCommit(version, datetime.now(UTC))


def _commits_of(lake: MemoryLake, table: Table, most: int) -> list[tuple[int, Row]]:
    return [(n, each.info) for n, each in enumerate(lake.commits[table])][::-1][:most]


def _not_taken(context: Context) -> Frame:
    rows = context.lake.rows(METADATA_POLLS)
    return Frame(rows.append_column(VERSION, pa.nulls(len(rows), pa.int64())))


def _state_now(spark: Any, lake: MemoryLake, view: View) -> Frame:
    assert view is STATE_NOW
    rows = [*_states_of(spark, lake).values()]
    return Frame(pa.Table.from_pylist(rows, arrow_schema(STATE)), STATE)


def _said(spark: Any, context: Context, takes: Any, versions: Any) -> Frame:
    wanted = {
        (each.cluster, poll): {"poll", "answer", *records}
        for each in takes
        for poll, records in each.polls.items()
    }
    rows = context.lake.rows(METADATA_POLLS)
    names = zip(*(rows[name].to_pylist() for name in ("cluster", "poll_id", "record")), strict=True)
    is_said = [record in wanted.get((cluster, poll), ()) for cluster, poll, record in names]
    return Frame(rows.filter(pa.array(is_said, pa.bool_())))


def _behind(context: Context, behind: Mapping[str, str | None]) -> list[tuple[Table, Frame]]:
    """More than gold needs: all that is current, too."""
    later = " OR ".join(
        f"cluster = '{cluster}' AND (is_current OR first_poll > '{poll}' OR superseded_poll > "
        f"'{poll}')"
        for cluster, poll in behind.items()
        if poll is not None
    )
    tables = (*silver.SNAPSHOTS, silver.BROKER_REGISTRATIONS, silver.PARTITION_REGISTRATIONS)
    return [(each, context.live.read(each).where(later)) for each in tables] if later else []


def output_of(history: History[Any], context: Context, news: News) -> Output:
    """The rows that the fold of some news makes, key by key, here."""
    if not news.keys:
        return Output()
    inputs = history.read(context, news)
    live: dict[Table, list[pa.Table]] = defaultdict(list)
    for table, rows in (*inputs.live.items(), *((t, frame.rows) for t, frame in inputs.others)):
        live[table].append(rows.select(table.column_names))
    made: dict[Table, list[Row]] = defaultdict(list)
    tables = {table.full_name: table for table in inputs.tables}
    for key in sorted(news.keys):
        fresh = {table.full_name: _of_key(frame.rows, history, key) for table, frame in inputs.news}
        known = {
            table.full_name: _of_key(pa.concat_tables(rows), history, key)
            for table, rows in live.items()
        }
        fresh, known = (
            {name: rows for name, rows in each.items() if len(rows)} for each in (fresh, known)
        )
        with failing_as(key.partition("/")[0]):
            for name, rows in inputs.fold(key, fresh, known).items():
                made[tables[name]] += rows
    states = [row | {"round": None} for row in made.pop(STATE, [])]
    rows_by_table = {
        table: pa.Table.from_pylist(rows, arrow_schema(table))
        for table, rows in made.items()
        if rows
    }
    return Output(rows_by_table, (), states)


def _of_key(rows: pa.Table, history: History[Any], key: str) -> pa.Table:
    keys = rows[KEY] if KEY in rows.column_names else history.keys_of(rows)
    return rows.filter(pc.equal(keys, key))


def _save(
    rows: Frame, lake: MemoryLake, table: Table, where: str | None, options: Mapping[str, str]
) -> None:
    lake.write(table, rows.rows, where, options)


def _frame(spark: Any, table: Table, rows: Iterable[Mapping[str, Any]]) -> Frame:
    given = [{name: row.get(name) for name in table.column_names} for row in rows]
    return Frame(pa.Table.from_pylist(given, arrow_schema(table)))


_IN_MEMORY = {
    (commit, "_save"): _save,
    (commit, "frame"): _frame,
    (commit, "can_replace"): lambda _: True,
    (commit, "delete_rows"): lambda _, lake, table, where: lake.delete(table, where),
    (commit, "newest_commit"): _newest_commit,
    (commit, "version_of"): lambda _, lake, *of, **more: lake.version_of(*of, **more),
    (plan, "states_of"): _states_of,
    (plan, "last_done"): _last_done,
    (stage, "frame_of"): lambda _, rows: Frame(rows),
    (session, "session_for"): lambda spark, _: spark,
    (appended, "is_kept"): lambda *_: True,
    (lost_rounds, "commits_of"): _commits_of,
    (in_spark, "table_exists"): lambda *_: True,
    (in_spark, "read_view"): _state_now,
    (poll_headers, "_not_taken"): _not_taken,
    (poll_inputs, "_said"): _said,
    (poll_inputs, "_behind"): _behind,
    (engine, "output_of"): output_of,
}
"""Module and name of each function that calls Spark or Delta, and what takes its place."""


@contextmanager
def without_spark() -> Iterator[None]:
    """Let the engine make rounds of a MemoryLake."""
    with pytest.MonkeyPatch.context() as patch:
        modules = [each for name, each in sys.modules.items() if name.startswith("jobs.")]
        for (of, name), instead in _IN_MEMORY.items():
            original = getattr(of, name)
            for module in modules:
                if getattr(module, name, None) is original:
                    patch.setattr(module, name, instead)
        yield


def tables_of(lake: MemoryLake, tables: Collection[Table]) -> dict[str, Sequence[Row]]:
    """The rows of tables, by their names."""
    return {table.full_name: rows_of(lake.rows(table)) for table in tables}
