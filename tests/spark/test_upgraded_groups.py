"""Rows of groups, which no stored lake has, upgraded from version 7."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from jobs.upkeep.upgrade import upgrade
from schemas import consumption, internal
from schemas.lake import Lake
from schemas.table import OLDEST_UPGRADED
from schemas.upgrades.v008_answers_of_their_own import lag
from tests.support import stored
from tests.support.repository import ROOT
from tests.support.upgrades import of_version

AT = datetime(2026, 7, 1, 9, 0, 0, 123_456, tzinfo=UTC)
MEMORIES = ROOT / "tests" / "unit" / "schemas" / "upgrades" / "data" / "group_memories_7.jsonl"
LAG = {"due": 1, "agreed": 2, "missed": [3, 4], "times": [7, 0]}
LAG["topics"] = {"t": {"0": [1_000, 1_200, 200, 5, 7, 10, 3, 1, 2, 3, 4]}}  # type: ignore[assignment]
OF_TYPES: dict[str, Any] = {"string": "x", "boolean": True, "timestamp": AT, "double": 1.0}


def append(spark: SparkSession, lake: Lake, table: str, *rows: dict[str, Any]) -> None:
    """Append rows under the name that a table had. Columns that may not be null and are not given
    have some value.
    """
    path = f"{lake}/{table.replace('.', '/')}"
    fields = json.loads(DeltaTable(path).schema().to_json())["fields"]
    made = {field["name"] for field in fields if "delta.generationExpression" in field["metadata"]}
    schema = StructType(
        [each for each in spark.read.format("delta").load(path).schema if each.name not in made]
    )
    needed = {
        field["name"]: OF_TYPES.get(field["type"], 1) if isinstance(field["type"], str) else []
        for field in fields
        if not field["nullable"]
    }
    values = [[(needed | row).get(each.name) for each in schema] for row in rows]
    spark.createDataFrame(values, schema).write.format("delta").mode("append").save(path)


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    """A lake of version 7 with groups."""
    lake = of_version(OLDEST_UPGRADED, tmp_path)
    spark.sql(
        f"ALTER TABLE delta.`{lake}/gold/rebalance_cost` ADD COLUMNS (awaits_after.there_before "
        "TIMESTAMP, committed_before BIGINT)"
    )
    memories = MEMORIES.read_text().splitlines()
    of_group = {"cluster_id": "id", "cluster": "prod", "part": 3}
    append(
        spark,
        lake,
        "internal.group_states",
        *(of_group | {"group_id": f"g{n}", "memory": text} for n, text in enumerate(memories)),
    )
    live = of_group | {"group_id": "g0", "is_live": True, "source": "log"}
    append(spark, lake, "gold.group_events_told", live | {"id": "e-1", "event": "created"})
    told = {"id": "r-1", "group_type": "classic", "reasons": ["member_joined"]}
    append(spark, lake, "gold.rebalances_told", live | told)
    memory = {"group_id": "g0", "memory": json.dumps(LAG)}
    append(spark, lake, "internal.lag_states", of_group | memory)
    append(spark, lake, "gold.group_lag", of_group | {"group_id": "g0", "lag_min": 5, "lag_max": 9})
    waits = {"committed": 5, "at": AT, "there_before": AT + timedelta(microseconds=1)}
    cost = of_group | {"group_id": "g0", "committed_before": 5}
    append(
        spark, lake, "gold.rebalance_cost", cost | {"awaits_after": waits}, cost | {"topic": "y"}
    )
    return lake


def test_rows_of_groups_become_those_of_this_version(spark: SparkSession, lake: Lake) -> None:
    list(upgrade(spark, lake))
    memories = {
        row["group_id"]: json.loads(row["memory"])
        for row in stored.rows_of(lake, internal.GROUP_STATES)
    }
    assert len(memories) == len(MEMORIES.read_text().splitlines())
    recent = {
        group: {text for each in memory.get("log", {}).values() for text in each["recent"]}
        for group, memory in memories.items()
    }
    assert recent.pop("g0") == {"e-1", "r-1"}
    assert set().union(*recent.values()) == set()
    (of_lag,) = stored.rows_of(lake, internal.LAG_STATES)
    assert of_lag["memory"] == lag(json.dumps(LAG))
    (row,) = stored.rows_of(lake, consumption.GROUP_LAG)
    assert (row["lag_min"], row["lag_max"], row["partitions_beyond"]) == (5, 9, 0)
    first, second = sorted(
        stored.rows_of(lake, consumption.REBALANCE_COST), key=lambda row: row["topic"]
    )
    waits = {"committed": 5, "at": AT, "there_before": AT + timedelta(microseconds=1)}
    assert first["awaits_after"] == waits | {"set_to": None}
    assert (first["committed_before"], second["awaits_after"]) == (5, None)
