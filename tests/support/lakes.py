"""Lakes for tests: their tables are made once in a run, and copied. Making one takes Spark longer
than many a test.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.rounds.history import History
from jobs.rounds.live import part_of
from schemas import bronze
from schemas.in_spark import ensure_lake
from schemas.lake import TABLES, Lake
from schemas.table import PART, Table
from tests.support import stored
from tests.support.histories import START
from tests.support.large_rounds import Row, tables_of
from tests.support.shared import made_once

LATER = START + timedelta(days=1)
"""When history was made that no round made."""


def new_lake(spark: SparkSession, folder: Path, tables: Iterable[Table] = TABLES) -> Lake:
    """A lake in `folder` with these tables, empty but for the row that says how all were made: jobs
    look at no more.
    """
    lake = Lake(root=str(folder))
    empty = Lake(root=str(_empty(spark)))
    for table in tables:
        shutil.copytree(empty.path(table), lake.path(table))
    return lake


@cache
def _empty(spark: SparkSession) -> Path:
    return made_once("empty-lake", lambda folder: ensure_lake(spark, Lake(root=str(folder))))


def keep(lake: Lake, rows: Sequence[Row]) -> None:
    """Take the first rows of polls into bronze, and the history that the rules make of them in this
    process. Rounds make the same of them (tests/spark/test_kills.py), and take it on
    (tests/spark/test_stored_lakes.py).
    """
    stored.append(lake, bronze.METADATA_POLLS, rows)
    for table, made in tables_of(rows, at=LATER).items():
        if made:
            stored.append(lake, table, [row | {PART: _part_of(row)} for row in made])


def _part_of(row: Row) -> int | None:
    is_live = row.get("is_live", row.get("valid_to", LATER) is None)
    return part_of(row["cluster_id"]) if is_live else None


def make_history(spark: SparkSession, lake: Lake, *histories: History[Any]) -> None:
    """Make history of all polls that are in bronze, and then these `histories`."""
    config = Config(lake, checkpoints="", clusters={}, poll={}, bronze_retention=timedelta(days=7))
    for history in (Polls(), *histories):
        Engine(spark, config, history).catch_up(whole=True)


def utc(value: Any) -> Any:
    """Times as they are: what collect returns is in the zone of this process."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def rows_of(lake: Lake, table: Table, *, without: Collection[str] = ("updated_at",)) -> list[str]:
    """Every row as text that can be compared, without columns that differ from run to run."""
    rows = (
        {name: value for name, value in row.items() if name not in without}
        for row in stored.rows_of(lake, table)
    )
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)
