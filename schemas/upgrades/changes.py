"""The changes that an upgrade makes of a lake: which tables, how, how long. Without Spark."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.pandas.types import from_arrow_type

from metadata_source.text import counted
from schemas.lake import UPGRADE_PROPERTY
from schemas.table import LAKE_VERSION, VERSION_PROPERTY, Column, Table, arrow_type
from schemas.upgrades import steps_from
from schemas.upgrades.step import Step

BEFORE_PROPERTY = "kafkaMetadataHistory.before"
"""The version of Delta's that a table had before its upgrade: an undo restores it."""

KEPT_HOURS = 8 * 24
"""For so long Delta keeps the log and the files of a table from its upgrade on, a day more than an
undo is possible.
"""

ROWS_A_SECOND = 8_000
"""Rows that are written again in a second, at least: 108,018 of bronze.metadata_polls took 13.3 s,
the first of the session, on two cores that had other work. `upgrade` prints what it took.
"""
SECONDS_A_TABLE = 2.0
"""For the two commits of a table."""

Metadata = dict[str, Any]
"""The action `metaData` of Delta's protocol."""


@dataclass(frozen=True)
class Found:
    """A table as it lies in the lake. `table`: under the name that it has there. `delta_version`:
    of Delta's, committed `at`. `bytes`: of its files.
    """

    table: Table
    metadata: Metadata
    delta_version: int
    bytes: int
    at: datetime
    rows: int = 0

    @property
    def version(self) -> int:
        """The version of the lake that it is of."""
        return int(self.metadata["configuration"].get(VERSION_PROPERTY, "0"))

    @property
    def before(self) -> int | None:
        """The version of Delta's before its upgrade; None where none is noted."""
        found = self.metadata["configuration"].get(BEFORE_PROPERTY)
        return None if found is None else int(found)

    @property
    def types(self) -> dict[str, Any]:
        """The type of each column, as Delta writes it."""
        fields = json.loads(self.metadata["schemaString"])["fields"]
        return {field["name"]: field["type"] for field in fields}


@dataclass(frozen=True)
class Change:
    """A table that an upgrade changes. `found`: as it is. `table`: as it will be. `steps`: in
    order. `is_rewritten`: its rows are written again; else its columns and properties alone change.
    """

    found: Found
    table: Table
    steps: tuple[Step, ...]
    is_rewritten: bool

    @property
    def is_written(self) -> bool:
        """Whether there are rows to be written again."""
        return self.is_rewritten and self.found.bytes > 0

    @property
    def is_moved(self) -> bool:
        """Whether the table gets another name."""
        return self.found.table.full_name != self.table.full_name

    @property
    def line(self) -> str:
        """The change, for people."""
        if self.is_moved:
            return (
                f"{self.found.table.full_name}: {counted(self.found.rows, 'row')} copied to "
                f"{self.table.full_name}"
            )
        if self.is_written:
            return f"{self.table.full_name}: {counted(self.found.rows, 'row')} written again"
        return f"{self.table.full_name}: no row changes, its columns and properties do"


def changes(found: Iterable[tuple[Table, Found]]) -> list[Change]:
    """The tables that an upgrade changes, by the tables as they are to be and as they are found."""
    return [change(table, each) for table, each in found if each.version < LAKE_VERSION]


def change(table: Table, found: Found) -> Change:
    """The change of a table. Raises ValueError where no step leads to it."""
    steps, old = steps_from(found.version), found.types
    new = {column.name: spark_type(column) for column in table.columns}
    has_rows = any(table.full_name in step.rows for step in steps)
    if has_rows:
        return Change(found, table, steps, is_rewritten=True)
    for column in table.columns:
        if column.name in old and not reads_as(old[column.name], new[column.name]):
            raise ValueError(f"{table.full_name}.{column.name} has another type: it takes a step")
        if column.name not in old and not column.nullable:
            raise ValueError(f"{table.full_name}.{column.name} may not be null: it takes a step")
    if list(table.partition_by) != found.metadata["partitionColumns"]:
        raise ValueError(f"{table.full_name} is partitioned otherwise: it takes a step")
    is_moved = found.table.full_name != table.full_name
    return Change(found, table, steps, is_rewritten=is_moved or not old.keys() <= new.keys())


def reads_as(old: Any, new: Any) -> bool:
    """Whether values of a type, as Delta writes it, are read as another one: as they are, but for
    fields at the end of a struct, which are null.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return bool(old == new)
    if old["type"] != "struct" or new["type"] != "struct":
        inner = "elementType" if old["type"] == "array" else "valueType"
        rest = {**old, inner: None} == {**new, inner: None}
        return rest and reads_as(old[inner], new[inner])
    before, now = old["fields"], new["fields"]
    if len(now) < len(before) or not all(each["nullable"] for each in now[len(before) :]):
        return False
    return all(
        {**one, "type": None} == {**other, "type": None} and reads_as(one["type"], other["type"])
        for one, other in zip(before, now, strict=False)
    )


def spark_type(column: Column) -> Any:
    """The type of a column as Delta writes it."""
    return from_arrow_type(arrow_type(column.type)).jsonValue()


def schema_string(table: Table) -> str:
    """The columns of a table as Delta writes them."""
    fields = [
        {
            "name": column.name,
            "type": spark_type(column),
            "nullable": column.nullable,
            "metadata": {
                "comment": column.comment,
                **(
                    {}
                    if column.generated_as is None
                    else {"delta.generationExpression": column.generated_as}
                ),
            },
        }
        for column in table.columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


def upgraded(table: Table, old: Metadata, before: int) -> Metadata:
    """The metadata of a table after its upgrade from a version of Delta's: that of this program,
    and for a while a longer memory. Other people's properties stay.
    """
    others = {
        name: value
        for name, value in old["configuration"].items()
        if not name.startswith(("delta.constraints.", UPGRADE_PROPERTY))
    }
    kept = {
        f"delta.{of}RetentionDuration": f"interval {max(KEPT_HOURS, table.log_hours)} hours"
        for of in ("log", "deletedFile")
    }
    return old | {
        "description": table.comment,
        "schemaString": schema_string(table),
        "configuration": others | table.properties | kept | {BEFORE_PROPERTY: str(before)},
    }


def with_properties(old: Metadata, **changed: str | None) -> Metadata:
    """Metadata with other properties, by `UPGRADE`, `VERSION` and `BEFORE`; None takes one away."""
    names = {"UPGRADE": UPGRADE_PROPERTY, "VERSION": VERSION_PROPERTY, "BEFORE": BEFORE_PROPERTY}
    configuration = dict(old["configuration"])
    for name, value in changed.items():
        if value is None:
            configuration.pop(names[name], None)
        else:
            configuration[names[name]] = value
    return old | {"configuration": configuration}


def new_constraints(change_: Change) -> Mapping[str, str]:
    """The constraints that rows which are not written again have to satisfy for the first time."""
    old = change_.found.metadata["configuration"]
    return {
        name: check
        for name, check in change_.table.constraints.items()
        if old.get(f"delta.constraints.{name}") != check
    }


def needed_bytes(made: Sequence[Change]) -> int:
    """The space that an upgrade takes: files that are written again lie beside those before."""
    return sum(each.found.bytes for each in made if each.is_rewritten)


def seconds(made: Sequence[Change]) -> float:
    """How long an upgrade takes, by the rows that it writes again: at most, on two cores."""
    rows = sum(each.found.rows for each in made if each.is_rewritten)
    return SECONDS_A_TABLE * len(made) + rows / ROWS_A_SECOND


def says(lake: str, version: int, made: Sequence[Change]) -> list[str]:
    """What an upgrade does, for people: a line each."""
    written = [each for each in made if each.is_written]
    others = len(made) - len(written)
    return [
        *(each.line for each in written),
        f"{counted(others, 'other table')}: no row changes, the columns and properties do",
        *(line for step in steps_from(version) for line in step.says),
        (
            f"{lake}: version {version} -> {LAKE_VERSION}, in about {seconds(made):.0f} s; it "
            f"needs {needed_bytes(made) / 1e6:,.1f} MB more, for seven days: so long "
            "`upgrade --undo` takes it back"
        ),
    ]
