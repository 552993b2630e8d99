"""Which tables an upgrade changes, and how: columns, properties, rows; and how long it takes."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas import bronze, gold, groups, silver
from schemas.internal import STATE
from schemas.lake import TABLES, UPGRADE_PROPERTY
from schemas.table import LAKE_VERSION, VERSION_PROPERTY, Column, Table
from schemas.upgrades import changes
from schemas.upgrades.changes import (
    BEFORE_PROPERTY,
    Change,
    Found,
    change,
    new_constraints,
    says,
    schema_string,
    upgraded,
    with_properties,
)

AT = datetime(2026, 11, 1, tzinfo=UTC)


def metadata_of(table: Table, **properties: str) -> dict[str, Any]:
    return {
        "id": "an id",
        "description": "of before",
        "schemaString": schema_string(table),
        "partitionColumns": list(table.partition_by),
        "configuration": table.properties | properties,
    }


def found(table: Table, version: int, size: int = 1, rows: int = 0) -> Found:
    return Found(table, metadata_of(table, **{VERSION_PROPERTY: str(version)}), 5, size, AT, rows)


def without(table: Table, name: str) -> Table:
    return replace(table, columns=tuple(each for each in table.columns if each.name != name))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.full_name))
def test_columns_are_written_as_delta_writes_them(table: Table) -> None:
    fields = json.loads(schema_string(table))["fields"]
    assert [each["name"] for each in fields] == [each.name for each in table.columns]
    assert all(each["metadata"]["comment"] for each in fields)


def test_types_are_written_as_delta_writes_them() -> None:
    column = Column("a", "map<string, array<struct<b: bigint, c: timestamp>>>", "")
    assert changes.spark_type(column) == {
        "type": "map",
        "keyType": "string",
        "valueContainsNull": True,
        "valueType": {
            "type": "array",
            "containsNull": True,
            "elementType": {
                "type": "struct",
                "fields": [
                    {"name": "b", "type": "long", "nullable": True, "metadata": {}},
                    {"name": "c", "type": "timestamp", "nullable": True, "metadata": {}},
                ],
            },
        },
    }
    assert changes.spark_type(Column("a", "int", "")) == "integer"


def test_rows_are_written_again_only_where_they_change() -> None:
    by_step = change(STATE, found(STATE, 9))
    assert by_step.is_written
    assert [step.version for step in by_step.steps] == [10, 11, 12]
    assert not change(STATE, found(STATE, 9, size=0)).is_written
    new_column = change(silver.POLL_GAPS, found(silver.POLL_GAPS, 7))
    assert not new_column.is_rewritten
    more = replace(
        silver.POLL_GAPS, columns=(*silver.POLL_GAPS.columns, Column("gone", "string", "Gone."))
    )
    was = replace(found(silver.POLL_GAPS, 7), metadata=metadata_of(more))
    assert change(silver.POLL_GAPS, was).is_rewritten


@pytest.mark.parametrize(
    ("old", "new", "is_read"),
    [
        ("int", "int", True),
        ("int", "bigint", False),
        ("int", "array<int>", False),
        ("array<int>", "array<bigint>", False),
        ("array<int>", "map<int, int>", False),
        ("struct<a: int>", "struct<a: int, b: bigint>", True),
        ("struct<a: int, b: bigint>", "struct<a: int>", False),
        ("struct<a: int, b: int>", "struct<b: int, a: int>", False),
        ("struct<a: int>", "struct<a: bigint, b: int>", False),
        ("array<struct<a: int>>", "array<struct<a: int, b: string>>", True),
        ("map<string, struct<a: int>>", "map<string, struct<a: int, b: int>>", True),
        ("map<string, struct<a: int>>", "map<int, struct<a: int, b: int>>", False),
        ("array<struct<a: struct<b: int>>>", "array<struct<a: struct<b: int, c: int>>>", True),
    ],
)
def test_a_struct_may_have_more_fields_at_its_end(old: str, new: str, is_read: bool) -> None:
    types = (changes.spark_type(Column("x", each, "")) for each in (old, new))
    assert changes.reads_as(*types) is is_read


def test_fields_that_rows_may_not_lack_are_no_such_fields() -> None:
    old, new = (
        changes.spark_type(Column("x", each, ""))
        for each in ("struct<a: int>", "struct<a: int, b: int>")
    )
    new["fields"][1]["nullable"] = False
    assert not changes.reads_as(old, new)


def test_offsets_of_before_lack_the_last_stable_offset() -> None:
    table = bronze.METADATA_POLLS
    metadata = metadata_of(table, **{VERSION_PROPERTY: "11"})
    metadata["schemaString"] = metadata["schemaString"].replace(
        ', {"name": "last_stable", "type": "long", "nullable": true, "metadata": {}}', ""
    )
    was = replace(found(table, 11), metadata=metadata)
    assert was.types["offsets"] != found(table, 11).types["offsets"]
    assert not change(table, was).is_rewritten


def test_what_no_step_explains_is_refused() -> None:
    table = silver.POLL_GAPS
    first = next(each for each in table.columns if not each.nullable)
    fewer = replace(found(table, 7), metadata=metadata_of(without(table, first.name)))
    with pytest.raises(ValueError, match=rf"{first.name} may not be null: it takes a step"):
        change(table, fewer)
    other = replace(table, columns=(replace(first, type="double"), *table.columns[1:]))
    with pytest.raises(ValueError, match="has another type: it takes a step"):
        change(table, replace(found(table, 7), metadata=metadata_of(other)))
    cut = replace(table, partition_by=(first.name,))
    with pytest.raises(ValueError, match="is partitioned otherwise: it takes a step"):
        change(table, replace(found(table, 7), metadata=metadata_of(cut)))


def test_a_table_with_another_name_is_copied() -> None:
    older = groups.REBALANCES.older
    assert older is not None
    made = change(groups.REBALANCES, replace(found(older, 9), rows=1_000))
    assert made.is_moved
    assert made.is_written
    assert made.line == "gold.rebalances_told: 1,000 rows copied to internal.rebalances"


def test_properties_are_those_of_today_and_what_others_set_stays() -> None:
    old = metadata_of(
        gold.ISR_CHANGES,
        **{
            VERSION_PROPERTY: "7",
            "delta.constraints.of_before": "true",
            "somebody.else": "x",
            UPGRADE_PROPERTY: "{}",
        },
    )
    made = upgraded(gold.ISR_CHANGES, old, 12)["configuration"]
    assert "delta.constraints.of_before" not in made
    assert made["somebody.else"] == "x"
    assert made[VERSION_PROPERTY] == str(LAKE_VERSION)
    assert made[BEFORE_PROPERTY] == "12"
    assert made["delta.logRetentionDuration"] == "interval 192 hours"


def test_a_property_is_set_and_taken_away() -> None:
    old = metadata_of(STATE)
    made = with_properties(old, UPGRADE="{}", BEFORE="3")
    assert made["configuration"] == old["configuration"] | {
        UPGRADE_PROPERTY: "{}",
        BEFORE_PROPERTY: "3",
    }
    assert with_properties(made, UPGRADE=None, BEFORE=None) == old


def test_rows_that_stay_are_held_against_new_constraints() -> None:
    old = metadata_of(gold.ISR_CHANGES, **{"delta.constraints.cause_known": "false"})
    made = Change(replace(found(gold.ISR_CHANGES, 7), metadata=old), gold.ISR_CHANGES, (), False)
    assert new_constraints(made) == {"cause_known": gold.ISR_CHANGES.constraints["cause_known"]}


def test_an_upgrade_says_what_it_does_how_long_and_what_it_needs() -> None:
    polls = change(
        bronze.METADATA_POLLS,
        found(bronze.METADATA_POLLS, 8, size=3_000_000, rows=1_000_000),
    )
    rewritten = replace(polls, is_rewritten=True)
    gaps = change(silver.POLL_GAPS, found(silver.POLL_GAPS, 8, rows=10))
    lines = says("LAKE", 9, [rewritten, gaps])
    assert lines[0] == "bronze.metadata_polls: 1,000,000 rows written again"
    assert lines[1] == "1 other table: no row changes, the columns and properties do"
    assert lines[2].startswith("polls begin a new stream: ")
    assert lines[-1] == (
        "LAKE: version 9 -> 12, in about 129 s; it needs 3.0 MB more, for seven days: so long "
        "`upgrade --undo` takes it back"
    )
