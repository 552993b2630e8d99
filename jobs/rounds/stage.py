"""The one stage in which history is made: what is new and what is live of each cluster are brought
together and folded.

Rows of several tables travel side by side, each in a column of its table: an array of one struct,
and null in rows of others. Without the array Arrow would carry a place for each column of each
table in each row.
"""

import ctypes
import gc
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.run.driver import java_text
from jobs.run.session import session_for
from metadata_source.errors import KafkaMetadataHistoryError
from metadata_source.text import LONGEST, printable
from schemas.table import Table, arrow_type

Row = dict[str, object]
Fold = Callable[[str, Mapping[str, pa.Table], Mapping[str, pa.Table]], Mapping[str, Sequence[Row]]]
"""Makes rows by table of a key's news and live rows, both by the full names of their tables."""

BATCH = 10_000
"""Rows that are handed back at a time."""

SENT_BYTES = 16 * 1024 * 1024
"""Up to so many bytes of rows are sent as a part of a task, which Spark serializes in memory."""


def ddl(table: Table, names: Iterable[str] = ()) -> str:
    """Columns as DDL: those that writers give values for, or `names`."""
    types = {column.name: column.type for column in table.columns}
    return ", ".join(f"`{name}` {types[name]}" for name in names or table.column_names)


@cache
def arrow_schema(table: Table, names: tuple[str, ...] = ()) -> pa.Schema:
    """The same columns in Arrow."""
    types = {column.name: column.type for column in table.columns}
    return pa.schema([(name, arrow_type(types[name])) for name in names or table.column_names])


def struct_of(table: Table, names: tuple[str, ...] = ()) -> pa.StructType:
    """The same columns as one type."""
    return pa.struct(list(arrow_schema(table, names)))


def column_of(table: Table) -> str:
    """The column in which packed rows of a table travel. A dot in it would have to be quoted."""
    return table.full_name.replace(".", "__")


def packed_ddl(table: Table, names: Iterable[str] = ()) -> str:
    """That column as DDL."""
    return f"`{column_of(table)}` array<struct<{ddl(table, names)}>>"


# --- in Spark ---


def packed(
    rows: DataFrame,
    table: Table,
    key: Sequence[str] = ("cluster",),
    names: Sequence[str] | None = None,
) -> DataFrame:
    """`rows` of a table as one column beside the key: those of its columns, or of `names`."""
    return rows.select(
        *key, F.array(F.struct(*(names or table.column_names))).alias(column_of(table))
    )


def side_by_side(parts: Iterable[DataFrame]) -> DataFrame:
    """Packed rows of several tables as one frame."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def unpacked(rows: DataFrame, table: Table, *key: str) -> DataFrame:
    """The rows of one table out of rows that lie side by side, beside columns of the key."""
    if column_of(table) not in rows.columns:
        return rows.sparkSession.createDataFrame([], ddl(table))
    of_table = rows.where(F.col(column_of(table)).isNotNull())
    return of_table.select(*key, F.col(column_of(table))[0].alias("_row")).select(*key, "_row.*")


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that are here, in one task; many reach the task by a shuffle."""
    frame = as_frame(session_for(spark, len(rows)), rows)
    return frame.coalesce(1) if rows.nbytes <= SENT_BYTES else frame.repartition(1)


def as_frame(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows that are here. PySpark loses what follows an empty chunk (tried with 4.2.0), and over
    Spark Connect it asks for a schema where there are no rows.
    """
    if not len(rows):
        return spark.createDataFrame([], from_arrow_schema(rows.schema))
    return spark.createDataFrame(rows.combine_chunks())


def as_stored(rows: DataFrame, table: Table) -> pa.Table:
    """The rows of a table, with the columns that writers give values for."""
    return rows.select(*table.column_names).toArrow().cast(arrow_schema(table))


# --- in Arrow ---


def packed_in_arrow(
    rows: Mapping[Table, pa.Table],
    key: str,
    of: Callable[[Table, pa.Table], pa.ChunkedArray | str],
    types: Mapping[str, pa.StructType] | None = None,
) -> pa.Table:
    """Rows of several tables side by side. `of`: the column `key` of a table's rows, or its value
    in all. `types`: by the column in which rows travel; None: all columns that writers give values
    for.
    """
    types = types or {column_of(table): struct_of(table) for table in rows}
    parts = [pa.table({key: pa.array([], pa.string())})] if not rows else []
    for table, of_table in rows.items():
        type_ = types[column_of(table)]
        arrays = [of_table[field.name].combine_chunks().cast(field.type) for field in type_]
        structs = pa.StructArray.from_arrays(arrays, fields=list(type_))
        parts.append(
            side_by_side_in_arrow(key, of(table, of_table), column_of(table), structs, types)
        )
    return pa.concat_tables(parts)


def side_by_side_in_arrow(
    key: str,
    of: pa.ChunkedArray | str,
    column: str,
    structs: pa.StructArray,
    types: Mapping[str, pa.StructType],
) -> pa.Table:
    """Rows of one table packed in `column`, beside the columns of others, which are null. `of`: the
    column `key`, or its value in all rows.
    """
    size = len(structs)
    arrays = {key: pa.repeat(pa.scalar(of), size) if isinstance(of, str) else of}
    arrays |= {name: pa.nulls(size, pa.list_(type_)) for name, type_ in types.items()}
    arrays[column] = pa.ListArray.from_arrays(
        pa.array(np.arange(size + 1, dtype=np.int32)), structs
    )
    return pa.table(arrays)


def tables_of(rows: pa.Table) -> dict[str, pa.Table]:
    """The rows of each table, of packed ones, by the table's name."""
    found = {}
    for column in rows.schema:
        if pa.types.is_list(column.type):
            structs = rows[column.name].combine_chunks().flatten()
            found[column.name.replace("__", ".", 1)] = pa.Table.from_struct_array(structs)
    return found


# --- the stage ---

_MARK = "[KAFKA_METADATA_FOLD]"
_BROKEN = re.compile(rf"{re.escape(_MARK)} cluster ([\w.-]+): (.+)")


class FoldError(KafkaMetadataHistoryError, RuntimeError):
    """Raised where a cluster's fold fails. One line, which names it: Spark keeps text alone."""


@contextmanager
def failing_as(cluster: str) -> Iterator[None]:
    """Let whatever fails within be a FoldError of a cluster.

    Without what caused it: a server of Spark Connect cuts long messages, and the cluster's line
    would come last.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is raised as another one
        *_, last = traceback.extract_tb(error.__traceback__)
        of = f"{type(error).__name__}: {error}"[:LONGEST]
        raise FoldError(
            f"{_MARK} cluster {cluster}: {printable(of)} ({last.name}, line {last.lineno})"
        ) from None


def broken_cluster(error: Exception) -> tuple[str, str] | None:
    """The alias of the cluster whose fold has failed, and why, by the error of a round, or None."""
    found = _BROKEN.search(java_text(error))
    return None if found is None else (found[1], found[2].strip())


@contextmanager
def uncollected() -> Iterator[None]:
    """Fold many rows without Python's collector: it would look through all, and finds nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def give_back_memory() -> None:
    """Collect what many rows have left, and let the system have it: processes live on, and would
    keep a GB of it.

    Only glibc has to be asked for its part.
    """
    gc.collect()
    pa.default_memory_pool().release_unused()
    if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def folded(
    news: DataFrame, live: DataFrame, tables: Sequence[Table], fold: Fold, key: str = "cluster"
) -> dict[Table, pa.Table]:
    """The rows that `fold` makes of each key's news and live rows, packed both, by table. A key is
    an alias, or begins with one and a slash. If a fold fails, `broken_cluster` of Spark's error
    says whose.
    """
    types = {column_of(table): struct_of(table) for table in tables}
    empty = pa.schema(
        [(key, pa.string()), *((name, pa.list_(type_)) for name, type_ in types.items())]
    ).empty_table()
    schema = f"`{key}` string, {', '.join(map(packed_ddl, tables))}"

    def parts_of_group(name: str, news: pa.Table, live: pa.Table) -> Iterator[pa.Table]:
        for table, of_table in fold(name, tables_of(news), tables_of(live)).items():
            column = table.replace(".", "__")
            for since in range(0, len(of_table), BATCH):
                structs = pa.array(of_table[since : since + BATCH], types[column])
                yield side_by_side_in_arrow(key, name, column, structs, types)

    def of_group(values: tuple[pa.Scalar, ...], news: pa.Table, live: pa.Table) -> pa.Table:
        name = values[0].as_py()
        with failing_as(name.partition("/")[0]), uncollected():
            made = pa.concat_tables([empty, *parts_of_group(name, news, live)])
        if len(made) > BATCH:
            give_back_memory()
        return made

    made = tables_of(
        news.groupBy(key).cogroup(live.groupBy(key)).applyInArrow(of_group, schema).toArrow()
    )
    of_tables = {table: made[table.full_name].cast(arrow_schema(table)) for table in tables}
    return {table: rows for table, rows in of_tables.items() if len(rows)}
