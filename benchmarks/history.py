"""Months of a made-up cluster, straight in silver's tables: its brokers are restarted one after the other, again and again.

Brokers 0 to 9 lead and follow the partitions of so many topics, ten each, three replicas each. Every 100 minutes the next of them is
down for ten: its partitions lose a replica and get it back, those that it leads change their leader twice. An hour later one topic's
min.insync.replicas is lowered for ten minutes. Broker 10 has been down since the first hour, and out of the ISRs of one topic: what
has gone on for months is no reason to read months. Polls are a minute apart; all were good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs.common.writes import upsert
from jobs.rules.events import row_id
from metadata_source.schedule import poll_id
from schemas import gold, silver
from schemas.lake import Lake, ensure_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from schemas.table import Table

CLUSTER_ID: Final = "Gv3gTtrhRZeNjtLk9YJ3_w"
ALIAS: Final = "made-up"
STREAM: Final = "20260101T000000Z-0a1b2c"
BROKERS: Final = 10
REPLICAS: Final = 3
DOWN, DOWN_SINCE = 10, 50
ALWAYS_UP: Final = (11, 12)
ARCHIVE: Final = "archive"
"""The topic that lacks the broker that is down."""

INTERVAL_S: Final = 60
EVERY: Final = 100
TAKES: Final = 10
LOWERED_AFTER: Final = 60
"""Numbers of polls: from restart to restart, until the broker is back, until settings of a topic are lowered."""

MINUTE_US: Final = 60_000_000
START_US: Final = 1_767_225_600_000_000
TOOK_US: Final = 20_000

_POLL_N: Final = poll_id(STREAM, 0).removeprefix(f"{STREAM}/")
_SILVER: Final = (
    silver.PARTITION_SNAPSHOTS,
    silver.BROKER_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
    silver.TOPIC_CONFIGS,
    silver.REASSIGNMENTS,
    silver.PARTITION_ELR,
    silver.PROGRESS,
)
_OF_PARTITION: Final = ("cluster_id", "topic", "topic_id", "partition")
_IDS: Final = {
    gold.ISR_CHANGES: (*_OF_PARTITION, "broker_id", "change", "poll"),
    gold.ISR_EPISODES: (*_OF_PARTITION, "level", "poll"),
    gold.BROKER_INCIDENTS: ("cluster_id", "broker_id", "poll"),
    gold.LEADER_CHANGES: (*_OF_PARTITION, "poll"),
    gold.LEADER_BALANCE: (),
}
"""Tables of events, and what their ids are made of."""
ENDS: Final = {
    **dict.fromkeys(_SILVER[:-1], "superseded_at"),
    gold.ISR_CHANGES: "closed_by",
    gold.ISR_EPISODES: "ended_by",
    gold.BROKER_INCIDENTS: "ended_by",
    gold.LEADER_CHANGES: "began_by",
    gold.LEADER_BALANCE: "superseded_at",
}
"""Tables that have a history, and the time from which on a row is that."""

_Number = TypeVar("_Number", int, Column)
_State = tuple[Column, Column]
"""Which broker is out of a partition's ISR (null: none), and its leader epoch (null: it was not there yet)."""

RESTARTS_A_FILE: Final = 40
TOPICS_OF_A_HUNDRED: Final = 25


@dataclass(frozen=True)
class History:
    """So many topics, and so many restarts of brokers."""

    topics: int
    restarts: int

    @property
    def changes(self) -> int:
        """Rows of silver.partition_snapshots."""
        return self.topics * (BROKERS + 2 * REPLICAS * self.restarts) + 2 * BROKERS


def write_silver(spark: SparkSession, lake: Lake, history: History) -> None:
    """Make the tables that event jobs read and write, and the rows of silver's but its progress."""
    ensure_tables(spark, lake, (*_SILVER, *gold.TABLES))
    levels = spark.range(1).select(
        F.lit(27).alias("metadata_version_level"),
        F.lit(0).alias("elr_version_level"),
        F.lit(0).alias("n"),
        F.lit(None).cast("int").alias("until"),
    )
    rows = {
        silver.PARTITION_SNAPSHOTS: _partition_rows(_partitions(spark, history)),
        silver.BROKER_SNAPSHOTS: _broker_rows(_brokers(spark, history.restarts)),
        silver.CLUSTER_SNAPSHOTS: levels,
        silver.TOPIC_CONFIGS: _settings(spark, history),
    }
    for table, states in rows.items():
        _write(_placed(states, table), lake, table, files=-(-history.restarts // RESTARTS_A_FILE))


def fill_gold(
    spark: SparkSession, lake: Lake, history: History, jobs: Iterable[Callable[[SparkSession], None]]
) -> None:
    """Let the jobs make events of the whole history."""
    settle(spark, lake, history.restarts - 1)
    for job in jobs:
        job(spark.newSession())


def repeat_gold(spark: SparkSession, lake: Lake, history: History, of: Lake, made_of: History) -> None:
    """Write what the jobs would make of a history, from what they made of a shorter one in the lake `of`.

    A million changes at once would take them long: a run joins what is new of a partition with itself.
    """
    for table, rows in repeated_gold(spark, history, of, made_of).items():
        _write(rows, lake, table, files=-(-history.restarts // RESTARTS_A_FILE))
    settle(spark, lake, history.restarts - 1)
    progress = of.read(spark, gold.PROGRESS).withColumns(_moved(gold.PROGRESS, history.restarts - made_of.restarts))
    upsert(progress, lake, gold.PROGRESS)


def repeated_gold(spark: SparkSession, history: History, of: Lake, made_of: History) -> dict[Table, DataFrame]:
    """Gold's events of a history: those of a shorter one, and its last ten restarts again and again, later each time.

    Both end with the restart of the same broker.
    """
    times, rest = divmod(history.restarts - made_of.restarts, BROKERS)
    if rest or made_of.restarts < BROKERS or history.topics != made_of.topics:
        raise ValueError(f"{history} does not repeat {made_of}")
    last_round = F.col("poll") >= _poll(F.lit(_down_at(made_of.restarts - BROKERS)))
    found = {}
    for table, key in _IDS.items():
        rows = of.read(spark, table).select(*table.column_names)
        later = rows.where(last_round).crossJoin(spark.range(1, times + 1).withColumnRenamed("id", "_round"))
        again = later.withColumns(_moved(table, F.col("_round") * BROKERS)).drop("_round")
        together = rows.unionByName(again.withColumn("id", row_id(*key)) if key else again)
        if table is gold.LEADER_BALANCE:
            # What was current at the end of the shorter history is over here.
            by_broker = Window.partitionBy("cluster_id", "broker_id").orderBy("poll")
            following = {"superseded_poll": F.lead("poll"), "superseded_at": F.lead("at")}
            together = together.withColumns({name: column.over(by_broker) for name, column in following.items()})
        found[table] = together
    return found


def _moved(table: Table, restarts: Column | int) -> dict[str, Column]:
    """The columns of a gold table that are others so many restarts later."""
    polls = F.lit(EVERY).cast("bigint") * restarts
    width = len(_POLL_N)
    moved = {}
    for column in table.columns:
        here = F.col(column.name)
        if column.type == "timestamp" and column.name != "updated_at":
            moved[column.name] = F.timestamp_micros(F.unix_micros(here) + polls * MINUTE_US)
        elif column.name in {"poll", "ended_poll", "superseded_poll", "done_poll"}:
            moved[column.name] = _poll(F.substring(here, -width, width).cast("bigint") + polls)
        elif column.name in {"leader_epoch", "prev_leader_epoch"}:
            moved[column.name] = here + (2 * polls / (EVERY * BROKERS)).cast("int")
    return moved


def settle(spark: SparkSession, lake: Lake, restart: int) -> None:
    """Say in silver.progress that the polls up to those after this restart are in silver."""
    n = _down_at(restart) + EVERY - 1
    none = F.array().cast("array<string>")
    columns = {
        "cluster": F.lit(ALIAS),
        "cluster_id": F.lit(CLUSTER_ID),
        "seen": F.create_map(F.lit(STREAM), F.lit(n).cast("bigint")),
        "applied_poll": _poll(F.lit(n)),
        "applied_at": _answered(F.lit(n)),
        "applied_sent_at": _sent(F.lit(n)),
        "applied_interval_ms": F.lit(INTERVAL_S * 1000),
        "before_poll": _poll(F.lit(n - 1)),
        "before_at": _answered(F.lit(n - 1)),
        "before_sent_at": _sent(F.lit(n - 1)),
        "settled_poll": _poll(F.lit(n)),
        "absent": none,
        "error_kinds": none,
        **{name: F.lit(0) for name in ("late_polls", "failed_polls", "refused_polls", "stale_polls")},
    }
    row = spark.range(1).select(*(column.alias(name) for name, column in columns.items()))
    upsert(_as_in(row, silver.PROGRESS), lake, silver.PROGRESS)


def restart_for_a_hundred(spark: SparkSession, lake: Lake, restart: int) -> None:
    """Another restart, of which a hundred changes come: 50 partitions lose a replica, 25 of them their leader, and get it back.

    Written as jobs/snapshot_history.py does. `restart`: how many there were before.
    """
    broker, down, back = restart % BROKERS, _down_at(restart), _down_at(restart) + TAKES
    topics = spark.range(TOPICS_OF_A_HUNDRED).select(_topic(F.col("id")).alias("topic"))
    held = lake.read(spark, silver.PARTITION_SNAPSHOTS).where("is_current").join(topics, "topic", "left_semi")
    held = held.where(F.array_position("replicas", broker).isin(1, 2)).localCheckpoint()
    led, epoch = (F.col("leader") == broker).cast("int"), F.col("leader_epoch")
    whole, lacking, again = (F.lit(None), epoch), (F.lit(broker), epoch + led), (F.lit(None), epoch + 2 * led)
    lost = _step(whole, lacking, F.lit(down), F.lit(back))
    got_back = _step(lacking, again, F.lit(back), F.lit(None))
    steps = _all([held.select("topic", "partition", "replicas", *step) for step in (lost, got_back)])
    listed = lake.read(spark, silver.BROKER_SNAPSHOTS).where("is_current").where(F.col("broker_id") == broker)
    listed_again = spark.range(1).select(
        F.lit(broker).alias("broker_id"), F.lit(back).alias("n"), F.lit(None).cast("int").alias("until")
    )
    within = f"t.superseded_at IS NULL OR t.superseded_at >= timestamp_micros({START_US + down * MINUTE_US})"
    for table, states, over in (
        (silver.PARTITION_SNAPSHOTS, _partition_rows(steps), _ended(held, down)),
        (
            silver.BROKER_SNAPSHOTS,
            _broker_rows(listed_again),
            _ended(listed, down).withColumn("ended_as", F.lit("absent")),
        ),
    ):
        rows = _placed(states, table).unionByName(over.select(*table.column_names)).localCheckpoint()
        upsert(rows, lake, table, update=silver.INTERVAL_ENDS, within=within)
    settle(spark, lake, restart)


# --- what there was: `n` is the number of the first poll that showed it, `until` of the first that did not (null: it is so) ---


def _partitions(spark: SparkSession, history: History) -> DataFrame:
    """Each state of each partition: topic, partition, replicas, who is out, the epoch, and both as they were before."""
    topics, restarts = history.topics, history.restarts
    nobody, unseen, zero = F.lit(None), (F.lit(None), F.lit(None)), F.lit(0)
    here = F.col("partition")
    replicas = F.array(*((here + role) % BROKERS for role in range(REPLICAS))).alias("replicas")
    first_restart = F.when(here > BROKERS - REPLICAS, 0).otherwise(here)
    first = (
        spark.range(topics * BROKERS)
        .select(_topic(F.col("id") % topics).alias("topic"), (F.col("id") / topics).cast("int").alias("partition"))
        .select(
            "topic", "partition", replicas, *_step(unseen, (nobody, zero), zero, _down_at_if(first_restart, restarts))
        )
    )
    restarted = (
        spark.range(topics * REPLICAS * restarts)
        .select(
            _topic(F.col("id") % topics).alias("topic"),
            (F.col("id") / (topics * REPLICAS)).cast("int").alias("_nth"),
            ((F.col("id") / topics).cast("int") % REPLICAS).alias("_role"),
        )
        .withColumn("partition", F.pmod(F.col("_nth") - F.col("_role"), F.lit(BROKERS)).cast("int"))
    )
    nth, role = F.col("_nth"), F.col("_role")
    # Each earlier restart of the broker that leads it raised the epoch twice.
    led, epoch = (role == 0).cast("int"), 2 * F.floor((nth - here + BROKERS - 1) / BROKERS)
    following = nth + F.when(role == REPLICAS - 1, BROKERS - REPLICAS + 1).otherwise(1)
    whole, lacking, again = (nobody, epoch), (nth % BROKERS, epoch + led), (nobody, epoch + 2 * led)
    down, back = _down_at(nth), _down_at(nth) + TAKES
    archive = spark.range(BROKERS).select(
        F.lit(ARCHIVE).alias("topic"),
        F.col("id").cast("int").alias("partition"),
        F.array(*map(F.lit, (*ALWAYS_UP, DOWN))).alias("replicas"),
    )
    since = F.lit(DOWN_SINCE)
    return _all(
        [
            first,
            restarted.select("topic", "partition", replicas, *_step(whole, lacking, down, back)),
            restarted.select(
                "topic", "partition", replicas, *_step(lacking, again, back, _down_at_if(following, restarts))
            ),
            archive.select("*", *_step(unseen, (nobody, zero), zero, since)),
            archive.select("*", *_step((nobody, zero), (F.lit(DOWN), zero), since, F.lit(None))),
        ]
    )


def _step(before: _State, after: _State, n: Column, until: Column) -> Iterator[Column]:
    """The columns of a step from one state of a partition to the next."""
    names = ("prev_out", "prev_epoch", "out", "epoch", "n", "until")
    return (column.cast("int").alias(name) for name, column in zip(names, (*before, *after, n, until), strict=True))


def _partition_rows(steps: DataFrame) -> DataFrame:
    """States as silver.partition_snapshots has them."""

    def state(out: str, epoch: str) -> dict[str, Column]:
        is_out = F.coalesce(F.get("replicas", F.lit(0)) == F.col(out), F.lit(False))
        return {
            "error_code": F.lit(0),
            "leader": F.get("replicas", is_out.cast("int")),
            "leader_epoch": F.col(epoch),
            "replicas": F.col("replicas"),
            "isr": F.array_sort(F.filter("replicas", lambda each: ~each.eqNullSafe(F.col(out)))),
            "offline_replicas": F.array_compact(F.array(out)),
        }

    before = {
        f"prev_{name}": F.when(F.col("prev_epoch").isNotNull(), column)
        for name, column in state("prev_out", "prev_epoch").items()
    }
    return steps.withColumns({"topic_id": _topic_id(), **before, **state("out", "epoch")})


def _brokers(spark: SparkSession, restarts: int) -> DataFrame:
    first = spark.range(BROKERS).select(
        F.col("id").cast("int").alias("broker_id"),
        F.lit(0).alias("n"),
        _down_at_if(F.col("id"), restarts).alias("until"),
    )
    nth = F.col("id").cast("int")
    again = spark.range(restarts).select(
        (nth % BROKERS).alias("broker_id"),
        (_down_at(nth) + TAKES).alias("n"),
        _down_at_if(nth + BROKERS, restarts).alias("until"),
    )
    others = spark.createDataFrame(
        [(DOWN, 0, DOWN_SINCE), *((broker, 0, None) for broker in ALWAYS_UP)], "broker_id int, n int, until int"
    )
    return _all([first, again, others])


def _broker_rows(listed: DataFrame) -> DataFrame:
    """Brokers as silver.broker_snapshots has them."""
    return listed.withColumns(
        {
            "host": F.concat(F.lit("broker-"), F.col("broker_id"), F.lit(".kafka.internal")),
            "port": F.lit(9092),
            "rack": F.concat(F.lit("zone-"), F.col("broker_id") % REPLICAS),
            "ended_as": F.when(F.col("until").isNotNull(), "absent"),
        }
    )


def _settings(spark: SparkSession, history: History) -> DataFrame:
    """The topics' settings: after each restart another topic's are lowered and raised again."""
    topics, restarts = history.topics, history.restarts
    two, one, unseen = F.lit(2), F.lit(1), F.lit(None).cast("int")

    def step(prev: Column, now: Column, n: Column, until: Column) -> Iterator[Column]:
        unclean = F.lit(False)
        given = {
            "prev_min_insync_replicas": prev,
            "prev_unclean_leader_election_enable": F.when(prev.isNotNull(), unclean),
            "min_insync_replicas": now,
            "unclean_leader_election_enable": unclean,
            "n": n,
            "until": until,
        }
        return (column.alias(name) for name, column in given.items())

    def lowered_if(nth: Column) -> Column:
        return _down_at_if(nth, restarts) + LOWERED_AFTER

    nth, topic = F.col("id").cast("int"), _topic(F.col("id") % topics).alias("topic")
    lowered = _down_at(nth) + LOWERED_AFTER
    return _all(
        [
            spark.range(topics).select(topic, *step(unseen, two, F.lit(0), lowered_if(nth))),
            spark.range(restarts).select(topic, *step(two, one, lowered, lowered + TAKES)),
            spark.range(restarts).select(topic, *step(one, two, lowered + TAKES, lowered_if(nth + topics))),
            spark.range(1).select(F.lit(ARCHIVE).alias("topic"), *step(unseen, two, F.lit(0), unseen)),
        ]
    )


def _topic(number: Column) -> Column:
    return F.concat(F.lit("orders.events-"), number.cast("string"))


def _topic_id() -> Column:
    return F.substring(F.md5("topic"), 1, 22)


def _down_at(restart: _Number) -> _Number:
    """The number of the first poll without the broker that this restart is of."""
    return (restart + 1) * EVERY


def _down_at_if(restart: Column, restarts: int) -> Column:
    """When a restart began, null when it is one that never was."""
    return F.when(restart < restarts, _down_at(restart)).cast("int")


# --- where it stands in time ---


def _placed(states: DataFrame, table: Table) -> DataFrame:
    """Rows of a snapshot table, with polls and times for their numbers."""
    n, until = F.col("n"), F.col("until")
    came_before = n > 0
    return _as_in(
        states.withColumns(
            {
                "cluster_id": F.lit(CLUSTER_ID),
                "cluster": F.lit(ALIAS),
                "first_poll": _poll(n),
                "first_seen_at": _answered(n),
                "prev_poll": F.when(came_before, _poll(n - 1)),
                "prev_sent_at": F.when(came_before, _sent(n - 1)),
                "interval_ms": F.lit(INTERVAL_S * 1000),
                **_ends(until),
            }
        ),
        table,
    )


def _ended(current: DataFrame, until: int) -> DataFrame:
    """Rows that were current, ended by this poll."""
    return current.withColumns(_ends(F.lit(until)))


def _ends(until: Column) -> dict[str, Column]:
    return {
        "last_poll": _poll(until - 1),
        "last_seen_at": _answered(until - 1),
        "last_seen_sent_at": _sent(until - 1),
        "superseded_poll": _poll(until),
        "superseded_at": _answered(until),
    }


def _poll(n: Column) -> Column:
    return F.concat(F.lit(f"{STREAM}/"), F.lpad(n.cast("string"), len(_POLL_N), "0"))


def _sent(n: Column) -> Column:
    return F.timestamp_micros(START_US + n.cast("bigint") * MINUTE_US)


def _answered(n: Column) -> Column:
    return F.timestamp_micros(START_US + TOOK_US + n.cast("bigint") * MINUTE_US)


def _as_in(rows: DataFrame, table: Table) -> DataFrame:
    """The columns that the table's writers give; null those that `rows` do not have."""
    there = set(rows.columns)
    return rows.select(
        *(
            (F.col(column.name) if column.name in there else F.lit(None)).cast(column.type).alias(column.name)
            for column in table.columns
            if column.generated_as is None
        )
    )


def _write(rows: DataFrame, lake: Lake, table: Table, *, files: int) -> None:
    """Append rows as runs and upkeep leave them: the current ones in a file of their own, the others in files by their ends.

    Upkeep would pack all that ended into one file of up to a gigabyte; more of them are harder on a run.
    """
    # Null comes first: of the tables that keep what is current apart, one task writes all of that.
    by_end = rows.repartitionByRange(files, ENDS[table]).sortWithinPartitions(ENDS[table])
    by_end.write.format("delta").mode("append").save(lake.path(table))


def _all(parts: list[DataFrame]) -> DataFrame:
    first, *others = parts
    for other in others:
        first = first.unionByName(other)
    return first
