"""Folds what the log has new of each group into its state, group by group, on executors; the rules are of jobs/rules/groups."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.common.group_log import PLACE
from jobs.rules.events import GROUP
from jobs.rules.groups import Folded, fold
from jobs.rules.groups.state import EPOCH
from schemas import gold
from schemas.table import Table

Row = dict[str, Any]


LIVES = 10
"""How many times of a group that is deleted and made again and again are remembered."""
_OF_THE_JOB = frozenset(
    {
        *("id", "rebalance_id", *GROUP, "cluster", "source", "poll", "coordinator", "followed_move", "move_id"),
        *("log_partition", "unassigned", "updated_at"),
    }
)
"""Columns of gold that do not follow from a group's records alone."""


def _told(table: Table, *more: str) -> str:
    """The columns of a table that fold tells, as the DDL of an array of them."""
    columns = [
        f"{column.name}: {column.type}"
        for column in table.columns
        if column.name not in _OF_THE_JOB and column.generated_as is None
    ]
    return f"array<struct<{', '.join([*columns, *more])}>>"


_SCHEMA = (
    "cluster_id string, cluster string, group_id string, log_partition int, group_type string, known_since timestamp, "
    f"first_at timestamp, state string, rebalances {_told(gold.REBALANCES)}, "
    f"members {_told(gold.REBALANCE_MEMBERS, 'first_offset: bigint')}, events {_told(gold.GROUP_EVENTS)}"
)


def folded(new: DataFrame, states: DataFrame) -> DataFrame:
    """One row for each group that `new` (rows of bronze.group_log with their PLACE) has records of.

    cluster_id, cluster, group_id, log_partition; group_type, known_since and state as gold.group_states shall have them; first_at,
    the time of the first of its new records; and arrays of rows of gold: rebalances, members (with the first_offset of their
    rebalance) and events. `states`: rows of gold.group_states. Rows that a state has taken in already are passed over.
    """
    records = new.where("is_record AND group_id IS NOT NULL")
    gaps = new.where("record IN ('lost', 'truncated')").drop("group_id").localCheckpoint()
    if not gaps.isEmpty():
        # A gap says something of every group that is known in its partition.
        known = records.select(*GROUP, "log_partition").union(states.select(*GROUP, "log_partition")).distinct()
        records = records.unionByName(gaps.join(known, ["cluster_id", "log_partition"]))
    states = states.join(records.select(*GROUP).distinct(), list(GROUP), "left_semi")
    arrow = to_arrow_schema(StructType.fromDDL(_SCHEMA), timezone="UTC")

    def of_group(rows: pa.Table, states: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(_folded(rows.to_pylist(), states.to_pylist())), arrow)

    return records.groupBy(*GROUP).cogroup(states.groupBy(*GROUP)).applyInArrow(of_group, _SCHEMA)


def nothing(spark: SparkSession) -> DataFrame:
    """What `folded` returns where the log has nothing new."""
    return spark.createDataFrame([], _SCHEMA)


def lives(states: DataFrame) -> DataFrame:
    """cluster_id, group_id, log_partition, known_since, known_until: when each group was there; known_until null where it still is.

    `states`: rows of gold.group_states, of which none but the last lives are kept.
    """
    of_state = F.from_json("state", "struct<lives: array<array<bigint>>>").lives
    return states.select(*GROUP, "log_partition", F.explode(of_state).alias("_life")).select(
        *GROUP,
        "log_partition",
        F.timestamp_micros(F.col("_life")[0]).alias("known_since"),
        F.timestamp_micros(F.col("_life")[1]).alias("known_until"),
    )


def _folded(rows: list[Row], states: list[Row]) -> Iterator[Row]:
    """The row of one group; none where nothing is new to it."""
    kept = json.loads(states[0]["state"]) if states else {}
    ordered = sorted(rows, key=_place)
    todo = list(_beyond(ordered, tuple(kept["place"])) if "place" in kept else _from_first_record(ordered))
    if not todo:
        return
    told = fold(kept.get("group"), todo)
    first_at = min((row["timestamp"] for row in todo if row["is_record"]), default=None)
    state = {"place": _place(todo[-1]), "lives": _lives(kept.get("lives", []), first_at, told), "group": told.state}
    yield {
        **{name: ordered[0][name] for name in ("cluster_id", "cluster", "group_id", "log_partition")},
        "group_type": told.group_type,
        "known_since": told.known_since,
        "first_at": first_at,
        "state": json.dumps(state, separators=(",", ":")),
        "rebalances": told.rebalances,
        "members": told.members,
        "events": told.events,
    }


def _lives(before: list[list[int | None]], first_at: datetime | None, told: Folded) -> list[list[int | None]]:
    """The last times that the group was there, each as begin and end (null: it still is), microseconds."""
    found = [list(life) for life in before] or [[_micros(first_at), None]]
    for event in sorted(told.events, key=lambda event: event["offset"]):
        if event["event"] == "deleted" and found[-1][1] is None:
            found[-1][1] = _micros(event["began_by"])
        elif event["event"] == "created" and found[-1][1] is not None:
            found.append([_micros(event["began_by"]), None])
    if told.group_type is not None and found[-1][1] is not None:
        found.append([_micros(first_at), None])  # how it came back was lost
    return found[-LIVES:]


def _micros(time: datetime | None) -> int | None:
    return None if time is None else (time - EPOCH) // timedelta(microseconds=1)


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in PLACE)


def _beyond(rows: Iterable[Row], place: tuple[Any, ...]) -> Iterable[Row]:
    return (row for row in rows if _place(row) > place)


def _from_first_record(rows: list[Row]) -> Iterable[Row]:
    """What came before a group was heard of says nothing of it."""
    first = next((number for number, row in enumerate(rows) if row["is_record"]), len(rows))
    return rows[first:]
