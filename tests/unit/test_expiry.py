"""Which rows of silver and gold may go."""

import itertools
from datetime import UTC, datetime, timedelta

import duckdb
import pytest

from jobs.common.expiry import TABLES, cutoff_of, held, over_before
from schemas import gold, groups, silver
from schemas.internal import retention_of
from schemas.silver import REACH
from tests.support.retained import was_over

CUTOFF = datetime(2026, 11, 14, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)
EVERY = [table for tables in TABLES.values() for table in tables]


def at(hours: float) -> datetime:
    return CUTOFF + timedelta(hours=hours)


def test_rows_go_a_day_at_a_time() -> None:
    assert cutoff_of(timedelta(days=7), NOW) == CUTOFF
    assert cutoff_of(timedelta(days=7), NOW.astimezone()) == CUTOFF
    assert cutoff_of(timedelta(days=7), NOW + timedelta(minutes=1)) == CUTOFF + timedelta(days=1)
    assert cutoff_of(timedelta(0), NOW) == datetime(2026, 11, 21, tzinfo=UTC)
    assert cutoff_of(timedelta.max, NOW) is None


def test_every_table_of_silver_and_gold_says_when_its_rows_were_over() -> None:
    assert {table.full_name for table in EVERY} == {
        table.full_name for table in (*silver.TABLES, *gold.TABLES, *groups.TABLES)
    }
    for table in EVERY:
        times = {column.name for column in table.columns if column.type == "timestamp"}
        assert table.over
        assert set(table.over) <= times
        assert set(table.over) <= set(table.statistics_columns), "files are skipped by them"


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.name)
def test_a_row_goes_that_changes_no_more_and_was_over_before(table) -> None:
    nullable = {column.name: column.nullable for column in table.columns}
    # What changes no more has a time by which it was over.
    is_told = table.live in table.column_names
    choices = [[*((None,) if nullable[name] else ()), at(-1), at(0), at(1)] for name in table.over]
    rows = [
        dict(zip(table.over, values, strict=True)) | ({table.live: is_live} if is_told else {})
        for values in itertools.product(*choices)
        for is_live in ((True, False) if is_told else (None,))
        if is_live or any(values) or (table.live and not is_told)
    ]
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    told = lake.execute(f"SELECT {_condition(table)} FROM ({_values(table, rows)})").fetchall()
    assert [bool(value) for (value,) in told] == [was_over(table, row, CUTOFF) for row in rows]
    assert {True, False} == {bool(value) for (value,) in told}


def _condition(table) -> str:
    return over_before(table, CUTOFF, {}).replace("TIMESTAMP'", "TIMESTAMPTZ'")


def _values(table, rows) -> str:
    def text(value) -> str:
        if value is None:
            return "CAST(NULL AS TIMESTAMPTZ)"
        return str(value).upper() if isinstance(value, bool) else f"TIMESTAMPTZ'{value}'"

    selects = []
    for row in rows:
        columns = {name: text(value) for name, value in row.items()}
        if table.live and table.live not in columns:
            columns[table.live] = f"{columns[table.over[-1]]} IS NULL"
        selects.append("SELECT " + ", ".join(f"{value} AS {name}" for name, value in columns.items()))
    return " UNION ALL ".join(selects)


def had(**until: datetime | None) -> dict:
    """How far histories of one cluster are, none of which has had all before CUTOFF unless told."""
    return {(history, "prod"): {"done_at": done_at} for history, done_at in {"silver": at(9), **until}.items()}


def test_silver_is_held_by_the_slowest_history_that_is_made_of_it() -> None:
    every = {"isr_shrink": at(2), "leader_churn": at(1)}
    rows, of_groups = silver.PARTITION_SNAPSHOTS, silver.GROUP_SNAPSHOTS
    assert held(had(**every), rows, CUTOFF) == {}
    assert held(had(**every | {"leader_churn": at(-1)}), rows, CUTOFF) == {"prod": at(-1)}
    assert held(had(isr_shrink=at(2)), rows, CUTOFF) == {"prod": None}
    assert held(had(**every | {"leader_churn": None}), rows, CUTOFF) == {"prod": None}
    assert held(had(**every), of_groups, CUTOFF) == {"prod": None}
    assert held(had(**every, rebalance_history=at(-2)), of_groups, CUTOFF) == {"prod": at(-2)}
    assert held(had(**every, rebalance_history=at(-2)), rows, CUTOFF) == {}
    assert held(had(), gold.ISR_CHANGES, CUTOFF) == {}, "nothing is made of gold"


def test_rows_that_are_held_are_kept_of_their_cluster_alone() -> None:
    condition = over_before(silver.POLL_GAPS, CUTOFF, {"it's": None, "prod": at(-2)})
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    rows = [(name, hours) for name in ("it's", "prod", "other") for hours in (-3, -2, -1, 1)]
    values = ", ".join(f"($${name}$$, TIMESTAMPTZ'{at(hours)}')" for name, hours in rows)
    sql = condition.replace("TIMESTAMP'", "TIMESTAMPTZ'").replace("\\'", "''")
    told = lake.execute(f"SELECT {sql} FROM (VALUES {values}) AS t (cluster, gap_end)").fetchall()
    gone = {row for row, (is_gone,) in zip(rows, told, strict=True) if is_gone}
    assert gone == {("prod", -3), ("other", -3), ("other", -2), ("other", -1)}


def test_the_view_of_how_far_history_reaches_reads_what_upkeep_notes() -> None:
    for schema in TABLES:
        assert f"'{retention_of(schema)}'" in REACH.query
