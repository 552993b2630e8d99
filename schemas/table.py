"""What a table of the lake is: columns with comments, keys, constraints, layout, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

LAKE_VERSION = 1
"""The version of the whole lake's schemas; rises when an older job could no longer write the tables rightly."""

TABLE_PROPERTY = "kafkaMetadataHistory.table"
VERSION_PROPERTY = "kafkaMetadataHistory.version"


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
        """The column as it stands in CREATE TABLE."""
        not_null = "" if self.nullable else " NOT NULL"
        generated = f" GENERATED ALWAYS AS ({self.generated_as})" if self.generated_as else ""
        return f"`{self.name}` {self.type}{generated}{not_null} COMMENT {sql_string(self.comment)}"


@dataclass(frozen=True, eq=False)
class Table:
    """One table: where it lies (`schema`.`name`), its columns, its key, and what every row must satisfy.

    `key` names the columns that tell rows apart; Delta does not enforce it, the writers and the tests do.
    `constraints` are CHECK expressions by name. `cluster_by` and `partition_by` exclude each other. `keeps_changes`: what was
    appended between two versions can be read without the rest (Delta's change data feed).
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

    @property
    def full_name(self) -> str:
        """`schema.name`, the name in catalogs and messages."""
        return f"{self.schema}.{self.name}"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns that writers give values for, in order (generated ones left out)."""
        return tuple(column.name for column in self.columns if column.generated_as is None)

    def create_statement(self, identifier: str) -> str:
        """CREATE TABLE for this table under `identifier`; constraints ride along, so that it is made whole or not at all."""
        columns = ",\n  ".join(column.ddl for column in self.columns)
        layout = ""
        if self.cluster_by:
            layout = f"\nCLUSTER BY ({', '.join(self.cluster_by)})"
        elif self.partition_by:
            layout = f"\nPARTITIONED BY ({', '.join(self.partition_by)})"
        properties = {
            TABLE_PROPERTY: self.full_name,
            VERSION_PROPERTY: str(LAKE_VERSION),
            # Off, so that delta-rs, Polars and DuckDB can read the lake too.
            "delta.enableDeletionVectors": "false",
            **({"delta.enableChangeDataFeed": "true"} if self.keeps_changes else {}),
            **{f"delta.constraints.{name}": check for name, check in self.constraints.items()},
        }
        rendered = ",\n  ".join(f"{sql_string(key)} = {sql_string(value)}" for key, value in properties.items())
        return (
            f"CREATE TABLE {identifier} (\n  {columns}\n) USING DELTA{layout}\n"
            f"COMMENT {sql_string(self.comment)}\nTBLPROPERTIES (\n  {rendered}\n)"
        )


@dataclass(frozen=True)
class View:
    """A named question over tables of the lake; `{schema.name}` in a part stands for that table.

    The rows are those of all parts; the first part names the columns.
    """

    schema: str
    name: str
    comment: str
    parts: tuple[str, ...]

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
