"""A table of the lake as plain data: columns with comments, keys, constraints, layout."""

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

LAKE_VERSION = 12
"""The version of the lake. It rises with any change of columns, or of what they mean."""

OLDEST_UPGRADED = 7
"""The oldest version that an upgrade takes."""

TABLE_PROPERTY = "kafkaMetadataHistory.table"
VERSION_PROPERTY = "kafkaMetadataHistory.version"

_SKIPPED_BY = {"cluster", "cluster_id", "topic", "group_id", "stream", "n", "offset", "round"}
"""Columns by which readers skip files, beside times. Delta cuts text after 32 characters, so ids of
polls are alike.
"""


@dataclass(frozen=True)
class Column:
    """One column: its Spark SQL type, what it means, and whether it may be null."""

    name: str
    type: str
    comment: str
    nullable: bool = True
    generated_as: str | None = None

    @property
    def ddl(self) -> str:
        """The column as CREATE TABLE has it."""
        not_null = "" if self.nullable else " NOT NULL"
        generated = f" GENERATED ALWAYS AS ({self.generated_as})" if self.generated_as else ""
        return f"`{self.name}` {self.type}{generated}{not_null} COMMENT {sql_string(self.comment)}"


_TYPES = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
}
_TYPES |= {"binary": "binary", "date32[day]": "date", "timestamp[us, tz=UTC]": "timestamp"}


def sql_type(of: pa.DataType) -> str:
    """An Arrow type as Spark SQL writes it."""
    if pa.types.is_struct(of):
        return f"struct<{', '.join(f'{each.name}: {sql_type(each.type)}' for each in of)}>"
    if pa.types.is_map(of):
        return f"map<{sql_type(of.key_type)}, {sql_type(of.item_type)}>"
    return f"array<{sql_type(of.value_type)}>" if pa.types.is_list(of) else _TYPES[str(of)]


_ARROW_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type that `sql_type` was called with."""
    kind, _, of = sql.removesuffix(">").partition("<")
    if kind == "array":
        return pa.list_(arrow_type(of))
    if kind == "map":
        return pa.map_(*map(arrow_type, of.split(", ", 1)))
    if kind == "struct":
        fields = (each.split(": ", 1) for each in _fields(of))
        return pa.struct([(name, arrow_type(type_)) for name, type_ in fields])
    return _ARROW_TYPES[kind]


def _fields(of: str) -> list[str]:
    """The fields that a struct is written with: what lies between brackets has commas of its
    own.
    """
    found = [""]
    for part in of.split(", "):
        is_open = found[-1].count("<") > found[-1].count(">")
        found[-1:] = [f"{found[-1]}, {part}"] if is_open else [found[-1], part]
    return found[1:]


def columns(text: str) -> tuple[Column, ...]:
    """Columns that are written as `name type [NOT NULL] -- meaning`, as `meanings` reads them."""
    found = []
    for head, meaning in meanings(text):
        name, _, type_ = head.partition(" ")
        nullable = not type_.endswith(" NOT NULL")
        found.append(Column(name, type_.removesuffix(" NOT NULL"), meaning, nullable))
    return tuple(found)


def columns_of(schema: pa.Schema | pa.StructType, text: str) -> tuple[Column, ...]:
    """The columns of an Arrow schema that `text` gives a meaning, in its order."""
    fields = {each.name: each for each in schema}
    return tuple(
        Column(name, sql_type(fields[name].type), meaning, fields[name].nullable)
        for name, meaning in meanings(text)
    )


def meanings(text: str) -> tuple[tuple[str, str], ...]:
    """Names and meanings that are written as `name -- meaning`, one below the other. Lines that are
    indented further continue the meaning above them.
    """
    entries = re.split(r"\n(?! )", inspect.cleandoc(text))
    pairs = (" ".join(each.split()).split(" -- ", 1) for each in entries)
    return tuple((name, meaning) for name, meaning in pairs)


@dataclass(frozen=True, eq=False)
class Table:
    """One table: where it lies (`schema`.`name`), its columns, its key, and what every row must
    satisfy.

    `key` names the columns that tell rows apart; Delta does not enforce it, the writers and the
    tests do. `constraints` are CHECK expressions by name. `cluster_by` and `partition_by` exclude
    each other. `keeps_changes`: what was appended between two versions can be read without the rest
    (Delta's change data feed). `live` is a condition on columns of `partition_by`: where it holds a
    later round may still replace the row. None: rows are only appended. `replaced_by`: columns of
    which a round writes all live rows with the same values, where it writes one (default: the key).
    `none_without`: a row in which this column is null says that there are none. `log_hours`: for
    how long Delta keeps the table's log, and files that were replaced. Who commits to a table lists
    its log first, so one that has a commit with each batch or round keeps six hours, or a day if it
    is read by commits. `over`: the times of a row; once it changes no more, it was over at the last
    of them, and retention goes by that. `was`: its full name in lakes before version 10.
    """

    schema: str
    name: str
    comment: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    constraints: Mapping[str, str] = field(default_factory=dict)
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    keeps_changes: bool = False
    live: str | None = None
    replaced_by: tuple[str, ...] = ()
    none_without: str | None = None
    log_hours: int = 7 * 24
    over: tuple[str, ...] = ()
    was: str | None = None

    @property
    def full_name(self) -> str:
        """`schema.name`, the name in catalogs and messages."""
        return f"{self.schema}.{self.name}"

    @property
    def older(self) -> "Table | None":
        """The table under the name that it had; None where it has always had this one."""
        if self.was is None:
            return None
        schema, name = self.was.split(".")
        return replace(self, schema=schema, name=name, was=None)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that writers give values for, in order (generated ones left out)."""
        return tuple(column.name for column in self.columns if column.generated_as is None)

    @property
    def statistics_columns(self) -> tuple[str, ...]:
        """The columns of which Delta notes the least and the greatest value in each file, so that
        readers skip files.

        To note all columns would take most of the time of a large write.
        """
        return tuple(
            column.name
            for column in self.columns
            if column.name not in self.partition_by
            and (column.type == "timestamp" or column.name in _SKIPPED_BY)
        )

    @property
    def properties(self) -> dict[str, str]:
        """The properties of the table, constraints among them."""
        return {
            TABLE_PROPERTY: self.full_name,
            VERSION_PROPERTY: str(LAKE_VERSION),
            # Off, so that delta-rs, Polars and DuckDB can read the lake too.
            "delta.enableDeletionVectors": "false",
            "delta.dataSkippingStatsColumns": ",".join(self.statistics_columns),
            # Of versions whose files are gone the log is of no use.
            **{
                f"delta.{what}RetentionDuration": f"interval {self.log_hours} hours"
                for what in ("log", "deletedFile")
            },
            **({"delta.enableChangeDataFeed": "true"} if self.keeps_changes else {}),
            **{f"delta.constraints.{name}": check for name, check in self.constraints.items()},
        }

    def create_statement(self, identifier: str) -> str:
        """CREATE TABLE under `identifier`, with its constraints: it is made whole or not at all."""
        columns = ",\n  ".join(column.ddl for column in self.columns)
        layout = ""
        if self.cluster_by:
            layout = f"\nCLUSTER BY ({', '.join(self.cluster_by)})"
        elif self.partition_by:
            layout = f"\nPARTITIONED BY ({', '.join(self.partition_by)})"
        rendered = ",\n  ".join(
            f"{sql_string(key)} = {sql_string(value)}" for key, value in self.properties.items()
        )
        return (
            f"CREATE TABLE {identifier} (\n  {columns}\n) USING DELTA{layout}\n"
            f"COMMENT {sql_string(self.comment)}\nTBLPROPERTIES (\n  {rendered}\n)"
        )


PART = "part"
"""The column by which live rows are spread over files, so that a round rewrites few of them."""


def part_column() -> Column:
    """The column PART of a table with live rows, the second by which the table is partitioned."""
    return Column(
        PART,
        "int",
        "Where the row lies while a round may replace it, a hash. Null once it changes no more.",
    )


@dataclass(frozen=True)
class View:
    """A named question over tables of the lake; `{schema.name}` in a part stands for that table, or
    for another view.

    The rows are those of all parts; the first part names the columns. `meanings`: comments of
    columns that a part computes, or takes from a column of another name.
    """

    schema: str
    name: str
    comment: str
    parts: tuple[str, ...]
    meanings: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> str:
        """All parts as one SELECT."""
        return union_all(self.parts)

    @property
    def full_name(self) -> str:
        """`schema.name`, the name in catalogs and messages."""
        return f"{self.schema}.{self.name}"


def union_all(parts: Sequence[str]) -> str:
    """SELECTs of the same columns as one."""
    return "\nUNION ALL\n".join(part.strip() for part in parts)


def sql_string(text: str) -> str:
    """`text` as a Spark SQL string literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
