"""How long it takes to ask for a day of rebalances, among a year of many.

A year of one cluster: 1,000,000 rebalances of 200 groups,
half of them classic, with 100,000 moves of the 50 partitions of the coordinators' log, and what
polls saw of begins. Each question is asked of the views with the settings of the jobs, once to warm
up and then so many times; medians.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from benchmarks import product
from benchmarks.results import Results, median
from schemas import groups, internal, silver
from schemas.in_spark import attach, ensure_tables
from schemas.lake import TABLES, Lake

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from benchmarks.results import Say
    from schemas.table import Table

REBALANCES: Final = 1_000_000
MOVES: Final = 100_000
GROUPS: Final = 200
PARTITIONS: Final = 50
FILES: Final = 40
_YEAR_S: Final = 365 * 86_400
_BEGIN: Final = "TIMESTAMP '2025-11-01 00:00:00'"
_DAY: Final = "TIMESTAMP '2026-03-01 00:00:00' AND TIMESTAMP '2026-03-02 00:00:00'"
_PLACE: Final = {"cluster_id": "'id-prod'", "cluster": "'prod'"}

QUESTIONS: Final = {
    "a day of rebalances": f"SELECT * FROM gold.rebalances WHERE began_before BETWEEN {_DAY}",
    "and of one group": (
        f"SELECT * FROM gold.rebalances WHERE began_before BETWEEN {_DAY} AND group_id = 'group-7'"
    ),
    "a day of members": f"SELECT * FROM gold.rebalance_members WHERE began_before BETWEEN {_DAY}",
    "a day of moves and other events": (
        f"SELECT * FROM gold.group_events WHERE began_before BETWEEN {_DAY}"
    ),
    "what a timeline shows of a day": (
        f"SELECT * FROM gold.incident_timeline WHERE began_before BETWEEN {_DAY}"
    ),
    "how many there are": "SELECT count(*) AS rebalances FROM gold.rebalances",
    "all rebalances": "SELECT * FROM gold.rebalances",
}


def questions(folder: Path, say: Say, runs: int) -> Results:
    """Measure question_s, and say what others take."""
    spark, lake, took = product.session(), Lake(root=str(folder)), {}
    ensure_tables(spark, lake, TABLES)
    fill(spark, lake, REBALANCES, MOVES)
    attach(spark, lake)
    for what, sql in QUESTIONS.items():
        took[what] = median([ask(spark, sql) for _ in range(1 + runs)][1:])
        say(f"{what}: {took[what].value:.2f} s")
    return {"question_s": took[next(iter(QUESTIONS))]}


def ask(spark: SparkSession, sql: str) -> float:
    """Return how long it takes to have all rows of the answer, without handing them over."""
    begin = time.monotonic()
    spark.sql(sql).write.format("noop").mode("overwrite").save()
    return time.monotonic() - begin


def fill(spark: SparkSession, lake: Lake, rebalances: int, moves: int) -> None:
    """Write a year of rebalances and moves, in the order of time, as OPTIMIZE leaves it."""
    began = _at(f"id * {_YEAR_S / rebalances!r}D")
    group = f"concat('group-', id % {GROUPS})"
    of_each = {
        **_PLACE,
        "group_id": group,
        "source": "'log'",
        "log_partition": f"CAST(id % {PARTITIONS} AS INT)",
    }
    topic = f"concat('topic-', id % {GROUPS})"
    told = {
        **of_each,
        "id": "md5(CAST(id AS STRING))",
        "group_type": "IF(id % 2 = 0, 'classic', 'consumer')",
        "began_before": began,
        "ended_after": f"{began} + INTERVAL 3 SECONDS",
        "ended_before": f"{began} + INTERVAL 3 SECONDS",
        "end_reason": "'completed'",
        "duration_ms_min": "3000",
        "members": "3",
        "subscribed": f"array({topic})",
        "assigned": (
            "array(named_struct('topic', CAST(NULL AS STRING), 'topic_id', concat('id-', "
            f"{topic}), 'partitions', 5))"
        ),
        "since_previous_ms": "60000",
        "is_live": "false",
    }
    _write(spark, lake, groups.REBALANCES, rebalances, told)
    had = (
        f"array(named_struct('topic', CAST(NULL AS STRING), 'topic_id', concat('id-', {topic}), "
        "'partitions', array(0, 1)))"
    )
    members = {
        **{name: told[name] for name in ("group_id", "began_before", "is_live")},
        **_PLACE,
        "rebalance_id": told["id"],
        "member_id": "concat('member-', id)",
        "change": "'stayed'",
        "before": had,
        "after": had,
    }
    _write(spark, lake, groups.REBALANCE_MEMBERS, rebalances, members)
    begun = {
        **{name: of_each[name] for name in (*_PLACE, "group_id")},
        "began_after": f"{began} - INTERVAL 10 SECONDS",
        "began_before": f"{began} - INTERVAL 1 SECOND",
        "ended_before": f"{began} + INTERVAL 9 SECONDS",
    }
    # Polls saw every second one of the classic groups' begin.
    _write(spark, lake, groups.REBALANCE_BEGINS, rebalances, begun, where="id % 4 = 0")
    moved = _at(f"id * {_YEAR_S / moves!r}D")
    leaders = {
        **_PLACE,
        "log_partition": of_each["log_partition"],
        "poll": "concat('s/', lpad(CAST(id AS STRING), 12, '0'))",
        "began_after": f"{moved} - INTERVAL 10 SECONDS",
        "began_before": moved,
        "leader": f"CAST(id DIV {PARTITIONS} % 3 AS INT)",
        "prev_leader": f"CAST((id DIV {PARTITIONS} + 2) % 3 AS INT)",
        "is_move": f"id >= {PARTITIONS}",
        "followed_until": f"{moved} + INTERVAL 20 SECONDS",
    }
    _write(spark, lake, silver.COORDINATORS, moves, leaders)
    _write(
        spark,
        lake,
        groups.GROUP_LIVES,
        GROUPS,
        {**of_each, "valid_from": _BEGIN, "is_live": "true"},
    )
    seen = {
        **_PLACE,
        "topic": topic,
        "topic_id": f"concat('id-', {topic})",
        "partition_count": "6",
        "first_poll": "'s/000000000000'",
        "valid_from": _BEGIN,
    }
    _write(spark, lake, silver.TOPIC_SNAPSHOTS, GROUPS, seen)
    state = {
        **_PLACE,
        "history": "'silver'",
        "memory": "'{}'",
        "round": "1",
        "done_at": _at(f"{_YEAR_S}D"),
    }
    _write(spark, lake, internal.STATE, 1, state)


def _at(seconds: str) -> str:
    return f"timestamp_micros(unix_micros({_BEGIN}) + CAST(1000000 * ({seconds}) AS BIGINT))"


def _write(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    count: int,
    values: Mapping[str, str],
    *,
    where: str = "true",
) -> None:
    """Append what `values` say (SQL of a number `id`); else null, or something."""
    some = {"string": "''", "int": "0", "bigint": "0", "timestamp": _BEGIN}
    columns = []
    for column in (column for column in table.columns if column.generated_as is None):
        value = values.get(
            column.name, "NULL" if column.nullable else some.get(column.type, "NULL")
        )
        columns.append(f"CAST({value} AS {column.type}) AS `{column.name}`")
    rows = spark.range(0, count, 1, FILES if count > FILES else 1).where(where).selectExpr(*columns)
    rows.write.format("delta").mode("append").save(lake.path(table))
