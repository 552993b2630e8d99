"""Retention of silver and gold: rows that are over go once they were over for long enough, and all
histories that are made of them have had them.

Rows that a round may still change stay, and lie in files of their own, so a round and a deletion do
not meet.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta

from pyspark.sql import SparkSession

from jobs.histories import HISTORIES
from jobs.rounds.commit import delete_matching, delete_rows, replace_rows
from jobs.rounds.plan import State, kept_since, states_of
from schemas import groups, silver
from schemas.in_spark import table_exists
from schemas.internal import STATE, retention_of
from schemas.lake import Lake
from schemas.table import Table, sql_string

log = logging.getLogger("kafka_metadata_history.upkeep")


def _tables() -> dict[str, list[Table]]:
    found: dict[str, list[Table]] = {}
    for history in HISTORIES:
        apart = {table: each.name for each in history.declared for table in each.kept_apart}
        for table in history().tables:
            if table.over:
                # What views of gold read lies in schema internal.
                schema = "gold" if table.schema == "internal" else table.schema
                found.setdefault(apart.get(table, schema), []).append(table)
    return found


TABLES = _tables()
"""The tables that lose rows by each key of `retention`, in that order."""

Held = Mapping[str, datetime | None]
"""Alias -> from when on its rows are kept, as some history has not had them; None: all of them."""


def expire_history(
    spark: SparkSession, lake: Lake, kept: Mapping[str, timedelta | None], now: datetime
) -> None:
    """Drop rows of silver and gold that have been over for longer than `kept`, by schema; None
    keeps them for ever.

    Once a day, and noted first: whoever asks how far history reaches is never told of more than
    there is.
    """
    for schema, length in kept.items():
        cutoff = None if length is None else cutoff_of(length, now)
        if cutoff is None:
            continue
        states = states_of(spark, lake)
        noted = kept_since(states, schema)
        if noted is not None and noted >= cutoff:
            continue
        note(spark, lake, retention_of(schema), cutoff)
        for table in TABLES[schema]:
            if table_exists(spark, lake, table):
                _expire(spark, lake, table, cutoff, held(states, table, cutoff))
        log.info("%s: rows that were over before %s were dropped", schema, cutoff.date())


def correct_noted(spark: SparkSession, lake: Lake, schemas: Iterable[str], now: datetime) -> None:
    """Note `now` in place of a time to come from which on the tables of a schema are whole: a clock
    was ahead when they lost rows by it. All that was over by now may be gone, so history is whole
    from now on.
    """
    states = states_of(spark, lake)
    for schema in schemas:
        if (noted := kept_since(states, schema)) is not None and noted > now:
            note(spark, lake, retention_of(schema), now)
            log.warning(
                "%s: retention was noted for %s, which is still to come: a clock was ahead, and "
                "rows that were over before now may be gone",
                schema,
                noted,
            )


def note(spark: SparkSession, lake: Lake, history: str, at: datetime, memory: str = "{}") -> None:
    """Put a row in the place of the one that internal.states has of a history of no cluster."""
    row = {"history": history, "cluster": "", "round": 0, "done_at": at, "memory": memory}
    replace_rows(spark, lake, STATE, [row], f"history = '{history}'")


def cutoff_of(length: timedelta, now: datetime) -> datetime | None:
    """The beginning of the day, UTC, until when rows have been over for `length`; None where there
    is no such day.
    """
    if length >= now - datetime.min.replace(tzinfo=UTC):
        return None
    return datetime.combine((now - length).astimezone(UTC).date(), time(), UTC)


def held(states: Mapping[tuple[str, str], State], table: Table, cutoff: datetime) -> Held:
    """The clusters of which a history has not had all rows of silver that were over before
    `cutoff`, and from when on.

    Times of a cluster do not fall in the order of its polls, so what was over before the last poll
    that a history has had, it has had.
    """
    makers = [name for history in HISTORIES for name in history.needs_silver.get(table, ())]
    if not makers:
        return {}
    found: dict[str, datetime | None] = {}
    for cluster in {cluster for _, cluster in states if cluster}:
        had = [states.get((maker, cluster), {}).get("done_at") for maker in makers]
        until = min((at for at in had if at is not None), default=None) if None not in had else None
        if until is None or until < cutoff:
            found[cluster] = until
    return found


def over_before(table: Table, cutoff: datetime, held: Held) -> str:
    """The condition, in SQL, that a row was over before `cutoff` and is not held."""
    conditions = [f"NOT {table.live}"] if table.live else []
    conditions += [f"({_is_before(name, cutoff, table)})" for name in table.over]
    for cluster, until in sorted(held.items()):
        of_cluster = f"cluster = {sql_string(cluster)}"
        since = "" if until is None else f" AND {table.over[-1]} >= {_literal(until)}"
        conditions.append(f"NOT ({of_cluster}{since})")
    return " AND ".join(conditions)


def _is_before(name: str, cutoff: datetime, table: Table) -> str:
    is_before = f"{name} < {_literal(cutoff)}"
    (column,) = (column for column in table.columns if column.name == name)
    return (
        f"{name} IS NULL OR {is_before}" if column.nullable and len(table.over) > 1 else is_before
    )


def _literal(at: datetime) -> str:
    return f"TIMESTAMP'{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}Z'"


def _expire(spark: SparkSession, lake: Lake, table: Table, cutoff: datetime, held: Held) -> None:
    condition = over_before(table, cutoff, held)
    old = lake.read(spark, table).where(condition)
    if old.isEmpty():
        return
    if table is silver.COORDINATORS:
        _expire_coordinators(spark, lake, cutoff)
        return
    if table is groups.REBALANCE_MEMBERS:
        # A rebalance that is kept may have begun before: its members stay.
        began = (
            lake.read(spark, groups.REBALANCES)
            .where(f"began_before < {_literal(cutoff)}")
            .select("id")
        )
        ids = ", ".join(sql_string(row.id) for row in began.collect())
        condition += f" AND rebalance_id NOT IN ({ids})" if ids else ""
    delete_rows(spark, lake, table, condition)


def _expire_coordinators(spark: SparkSession, lake: Lake, cutoff: datetime) -> None:
    """Of each partition, drop leaders whose next one began before `cutoff`."""
    last = (
        "SELECT cluster_id, log_partition, max(began_before) AS began "
        f"FROM {lake.identifier(silver.COORDINATORS)} WHERE began_before < {_literal(cutoff)} "
        "GROUP BY ALL"
    )
    on = (
        "t.cluster_id = s.cluster_id AND t.log_partition = s.log_partition AND t.began_before < "
        "s.began "
        f"AND t.began_before < {_literal(cutoff)}"
    )
    delete_matching(spark, lake, silver.COORDINATORS, last, on)
