"""What polls of groups tell: all of the history where the log is not read, and bounds of begins where it is.

Pure: DataFrames in, DataFrames out; what one group's states mean is in jobs/rules/groups/polls.py. A rebalance of the log has the
coordinator's clock, polls have the poller's: bounds are as good as the two agree, and never out of order.
"""

from dataclasses import asdict
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.rules.events import GROUP, ms, row_id
from jobs.rules.groups import polls
from jobs.rules.groups.state import CLASSIC
from jobs.rules.isr import with_durations
from schemas import gold
from schemas.table import Table

PLACE = ("cluster_id", "cluster", "group_id")
SOURCE = "polls"


# --- clusters whose log is not read ---


def _array_of(table: Table, *more: str) -> str:
    """What polls tell of a table's rows, as the DDL of an array."""
    not_told = {*PLACE, "id", "rebalance_id", "source", "updated_at"}
    columns = [f"{c.name}: {c.type}" for c in table.columns if c.generated_as is None and c.name not in not_told]
    return f"array<struct<{', '.join([*columns, *more])}>>"


_TOLD = (
    f"cluster_id string, cluster string, group_id string, rebalances {_array_of(gold.REBALANCES)}, "
    f"members {_array_of(gold.REBALANCE_MEMBERS, 'poll: string')}, events {_array_of(gold.GROUP_EVENTS)}"
)


def polled(states: DataFrame, going_on: DataFrame) -> DataFrame:
    """A row for each group of which polls show something new: cluster_id, cluster, group_id, arrays rebalances, members, events.

    `states`: rows of silver.group_snapshots that began or ended after `done_poll`, a column of theirs (null: nothing is done), or began
    with or after a rebalance that goes on. `going_on`: the rows of gold.rebalances from polls that were open at `done_poll`.
    """
    since = going_on.select(*GROUP, F.col("poll").alias("_since"))
    done = F.coalesce("done_poll", F.lit(""))
    rows = (
        states.join(since, list(GROUP), "left")
        .withColumn(
            "is_new", (F.col("first_poll") > done) | F.coalesce(F.col("first_poll") >= F.col("_since"), F.lit(False))
        )
        .where(F.col("is_new") | (F.col("superseded_poll") > done))
    )
    schema = to_arrow_schema(StructType.fromDDL(_TOLD), timezone="UTC")

    def of_group(rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([_polled(rows.to_pylist())], schema)

    return rows.groupBy(*GROUP).applyInArrow(of_group, _TOLD)


def _polled(states: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of one group."""
    told = asdict(polls.polled(states))
    done = states[0]["done_poll"] or ""
    told["events"] = [event for event in told["events"] if event["poll"] > done]
    return {name: states[0][name] for name in PLACE} | told


def rebalances(told: DataFrame) -> DataFrame:
    """The rebalances that `polled` tells; columns of gold.rebalances but updated_at, null where they follow from other tables."""
    return _rows(told, "rebalances", gold.REBALANCES, id=_rebalance_id(), source=F.lit(SOURCE))


def members(told: DataFrame) -> DataFrame:
    """Their members; columns of gold.rebalance_members but updated_at."""
    return _rows(told, "members", gold.REBALANCE_MEMBERS, rebalance_id=_rebalance_id())


def events(told: DataFrame) -> DataFrame:
    """The events that `polled` tells; columns of gold.group_events but updated_at."""
    of = ("event", "poll", "instance_id")
    return _rows(told, "events", gold.GROUP_EVENTS, id=row_id(*GROUP, *of), source=F.lit(SOURCE))


def _rebalance_id() -> Column:
    return row_id(*GROUP, "poll")


def _rows(told: DataFrame, of: str, table: Table, **given: Column) -> DataFrame:
    names = [name for name in table.column_names if name != "updated_at"]
    return told.select(*PLACE, F.inline(of)).withColumns(given).select(*names)


# --- begins of classic rebalances that the log tells ---


def begins(states: DataFrame) -> DataFrame:
    """When rebalances of classic groups began, by their states: cluster_id, group_id, began_after, began_by, ended_by.

    Each is a stretch of states in which a group rebalances, or a change from one state at rest to another between two polls. `states`:
    rows of silver.group_snapshots. Of a stretch that began before them began_after is null; ended_by is while it lasts.
    """
    rebalances = F.col("state").isin(*polls.REBALANCING)
    rebalanced = F.col("prev_state").isin(*polls.REBALANCING)
    between = ~rebalances & ~rebalanced
    in_order = Window.partitionBy(*GROUP).orderBy("first_poll")
    return (
        states.where(F.coalesce("group_type", F.lit(CLASSIC)) == CLASSIC)
        .withColumns({"_begins": ~F.coalesce(rebalanced, F.lit(False)), "_between": between})
        .where(rebalances | F.col("_between"))
        .withColumn("_stretch", F.sum(F.col("_begins").cast("int")).over(in_order))
        .groupBy(*GROUP, "_stretch")
        .agg(
            F.min_by(F.when(F.col("_begins"), F.col("prev_sent_at")), "first_poll").alias("began_after"),
            F.min("first_seen_at").alias("began_by"),
            F.max_by(
                F.when(F.col("_between"), F.col("first_seen_at")).otherwise(F.col("superseded_at")), "first_poll"
            ).alias("ended_by"),
        )
        .drop("_stretch")
    )


def bounded(rebalances: DataFrame, began: DataFrame) -> DataFrame:
    """Rebalances with closer bounds of their begins, where those of classic groups that the log tells are within what polls saw begin.

    `rebalances`: rows of gold.rebalances; a bound that is closer already stays. `began`: see begins, those that had not ended when the first
    of the rebalances had begun. One belongs to the first rebalance whose record (which only the end of a rebalance writes) came after
    it had begun, and before a poll showed it over, unless it had begun by the end of the rebalance before.
    """
    stretch = began.select(
        *GROUP,
        F.col("began_after").alias("_after"),
        F.col("began_by").alias("_by"),
        F.col("ended_by").alias("_ended_by"),
    )
    before = F.greatest(
        "began_after", F.timestamp_micros(F.unix_micros("began_by") - 1000 * F.col("since_previous_ms"))
    )
    found = (
        rebalances.where((F.col("source") == "log") & (F.col("group_type") == CLASSIC))
        .select("id", *GROUP, "began_by", before.alias("_before"))
        .join(stretch, list(GROUP))
        .where("_after IS NULL OR _after < began_by")
        .where("_ended_by IS NULL OR _ended_by >= began_by")
        .where("_before IS NULL OR _by > _before")
        .groupBy("id")
        .agg(F.min(F.struct("_by", "_after")).alias("_stretch"))
        .select("id", F.col("_stretch._after").alias("after"), F.col("_stretch._by").alias("by"))
    )
    return with_bounds(rebalances, found)


def with_bounds(rebalances: DataFrame, bounds: DataFrame) -> DataFrame:
    """Rebalances with the bounds of their begins that `bounds` has, where these are closer: id, after, by (either may be null)."""
    return with_durations(
        rebalances.join(bounds, "id", "left")
        .withColumns({"_was": F.col("began_by"), "began_after": F.greatest("began_after", "after")})
        # No bound out of order, were the clocks apart.
        .withColumn("began_by", F.greatest(F.least("began_by", "by"), "began_after"))
        .withColumn("since_previous_ms", F.col("since_previous_ms") + ms("_was", "began_by"))
        .drop("after", "by", "_was")
    )
