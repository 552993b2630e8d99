"""Lakes of polls that are not history yet, and history of them, held against the rules."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.configuration.config import Config, Thresholds
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from schemas.lake import Lake
from schemas.table import Table
from tests.support.histories import START
from tests.support.lakes import new_lake
from tests.support.large_rounds import tables_of
from tests.support.stored import Row, append, as_text, newest_states, rows_of, version

POLLS = 12
LATER = START + timedelta(days=1)
"""When all rounds are made: long after the polls, and at one time, since rows of gold say when they
were updated.
"""
TABLES = (*(table for tables in OF_POLLS.values() for table in tables), STATE)
OTHER = Thresholds(flaps=1, flap_window=timedelta(hours=1))

Tables = dict[Table, list[str]]


def with_polls(spark: SparkSession, folder: Path, polls: list[Row]) -> Lake:
    lake = new_lake(spark, folder)
    append(lake, METADATA_POLLS, polls)
    return lake


def copied(lake: Lake, folder: Path) -> Lake:
    shutil.copytree(str(lake), folder, dirs_exist_ok=True)
    return Lake(root=str(folder))


def history_of(spark: SparkSession, lake: Lake, *histories: str, **settings: Any) -> Engine:
    config = Config(lake, "", {}, {}, timedelta(days=7), **settings)
    return Engine(spark, config, Polls(histories or OF_POLLS))


def made(spark: SparkSession, lake: Lake, *histories: str, **settings: Any) -> Engine:
    """Make all that is new."""
    history = history_of(spark, lake, *histories, **settings)
    while history.round(LATER):
        pass
    return history


def compared(table: Table, rows: list[Row]) -> list[str]:
    assert len(rows) == len({tuple(row[name] for name in table.key) for row in rows}), (
        f"{table.full_name}: keys"
    )
    if table is STATE:
        rows = [row | {"round": None, "memory": json.loads(row["memory"])} for row in rows]
    return as_text(rows)


def by_rules(polls: list[Row]) -> dict[Table, list[Row]]:
    """The rows of all tables that the rules make of polls in one process."""
    made = tables_of(polls, at=LATER)
    return {
        table: [dict.fromkeys(table.column_names) | row for row in made[table]] for table in TABLES
    }


def all_compared(rows: dict[Table, list[Row]]) -> Tables:
    return {table: compared(table, of_table) for table, of_table in rows.items()}


def assert_same(lake: Lake, whole: Tables) -> None:
    for table, rows in whole.items():
        found = newest_states(lake) if table is STATE else rows_of(lake, table)
        assert compared(table, found) == rows, table.full_name


def versions(lake: Lake) -> dict[str, int]:
    return {table.full_name: version(lake, table) for table in TABLES}


def states(lake: Lake, history: str = "silver") -> dict[str, Row]:
    return {row["cluster"]: row for row in newest_states(lake) if row["history"] == history}


def written_since(before: dict[str, int], lake: Lake) -> list[Table]:
    return [table for table in TABLES if version(lake, table) > before[table.full_name]]


def optimize(spark: SparkSession, lake: Lake, *tables: Table) -> None:
    assert tables, "nothing is compacted"
    for table in tables:
        spark.sql(f"OPTIMIZE {lake.identifier(table)}")
