"""Answers to enrichments -> what to write to their silver tables. Pure: DataFrames in, DataFrames out.

An answer to a kind says all there is of it, so what it does not list has ended. Kinds have a beat of their own: between two
answers to one, nothing is known of it and what was said last goes on. Each kind therefore has its own line of polls.

All kinds are worked on at once, as things: the keys of every kind (topic, partition, broker, group) and their states side
by side. Planning six times as much for rows as few as these would cost more than the rows do.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jobs.rules import presence
from jobs.rules.intervals import intervals
from schemas.silver import ENRICHMENTS, GROUP_SNAPSHOTS
from schemas.table import Table

ANSWERED = "ok"
FAILED = "failed"
"""How outcomes begin that say nothing."""


def _state_of(table: Table) -> dict[str, str]:
    """The columns of a table's state, and their types."""
    return {column.name: column.type for column in table.columns if f"prev_{column.name}" in table.column_names}


_GROUP = "group"
"""A group's state as one value. Nulls in it are told (a classic group has no epoch); null itself could not be told."""
_GROUP_STATE = _state_of(GROUP_SNAPSHOTS)
_STATES = {
    name: type_
    for table in ENRICHMENTS.values()
    if table is not GROUP_SNAPSHOTS
    for name, type_ in _state_of(table).items()
} | {_GROUP: f"struct<{', '.join(f'{name}: {type_}' for name, type_ in _GROUP_STATE.items())}>"}
"""The columns of state of all kinds, and their types."""

_KEYS = {
    column.name: column.type
    for table in ENRICHMENTS.values()
    for column in table.columns
    if column.name in table.key[1:-1]
}
"""The columns of all keys between cluster and first_poll, and their types."""

_THING = ("cluster", "kind", *_KEYS)


def lines_of(headers: DataFrame, verdicts: DataFrame) -> DataFrame:
    """For each kind, the accepted polls in which it was answered, as verdicts numbered among themselves; ord 0 is from before.

    `headers`: see snapshots.Intake. With `kind` and `topic_filter`, what the poll covered.
    """
    columns = ("cluster", "kind", "poll_id", "at", "sent_at", "interval_ms", "topic_filter")
    answered = headers.select("cluster", "poll_id", "topic_filter", _answered_kinds())
    new = (
        verdicts.where(F.col("verdict") == "accepted")
        .join(F.broadcast(answered), ["cluster", "poll_id"])
        .select(*columns, F.lit(1).alias("_new"))
    )
    so_far = (
        headers.where("applied.enriched IS NOT NULL")
        .dropDuplicates(["cluster"])
        .select("cluster", F.explode("applied.enriched").alias("kind", "last"))
        .select("cluster", "kind", "last.*", F.lit(0).alias("_new"))
    )
    by_kind = Window.partitionBy("cluster", "kind").orderBy("poll_id")
    return (
        new.unionByName(so_far, allowMissingColumns=True)
        .withColumns(
            {
                "ord": F.sum("_new").over(by_kind).cast("int"),
                "verdict": F.lit("accepted"),
                "before_poll": F.lag("poll_id").over(by_kind),
                "before_at": F.lag("at").over(by_kind),
                "before_sent_at": F.lag("sent_at").over(by_kind),
            }
        )
        .drop("_new")
    )


def answered_intervals(answers: DataFrame, lines: DataFrame, open_rows: Mapping[str, DataFrame]) -> DataFrame:
    """What the kinds of `open_rows` said over time, as things; see intervals. `answers`: rows of bronze; `lines`: see lines_of.

    `open_rows`: by kind, the rows of its table that were open before.
    """
    polls = F.broadcast(lines.select("cluster", "kind", "poll_id", "ord"))
    said = F.when(F.col("kind") == "", None)
    for kind in open_rows:
        said = said.when(F.col("kind") == kind, _things_of(kind))
    listed = (
        answers.withColumn("kind", F.col("record"))
        .join(polls, ["cluster", "kind", "poll_id"])
        .select("cluster", "kind", "ord", F.col("topic"), F.inline(said))
    )
    so_far = reduce(DataFrame.unionByName, (_as_things(kind, rows) for kind, rows in open_rows.items())).join(
        F.broadcast(lines.where("ord = 0").select("cluster", "kind", "ord")), ["cluster", "kind"]
    )
    observed = listed.unionByName(so_far, allowMissingColumns=True).localCheckpoint()

    filters = lines.select("cluster", "kind", "ord", "topic_filter")
    last = lines.groupBy("cluster", "kind").agg(F.max("ord").alias("_last"))
    by_thing = Window.partitionBy(*_THING).orderBy("ord")
    gone = (
        observed.join(F.broadcast(last), ["cluster", "kind"])
        .withColumn("_next", F.coalesce(F.lead("ord").over(by_thing), F.col("_last") + 1))
        .where(F.col("_next") > F.col("ord") + 1)
        .withColumn("ord", F.col("ord") + 1)
        .join(F.broadcast(filters), ["cluster", "kind", "ord"])
        .select(*_THING, "ord", _ended_as().alias("ended_as"))
    )
    return intervals(observed.unionByName(gone, allowMissingColumns=True), _THING, tuple(_STATES))


def rows_of(kind: str, things: DataFrame) -> DataFrame:
    """The things of one kind with the columns of its table, as answered_intervals gives them."""
    rows = things.where(F.col("kind") == kind)
    if ENRICHMENTS[kind] is not GROUP_SNAPSHOTS:
        return rows
    return rows.withColumns(
        {f"{prefix}{name}": F.col(f"{prefix}{_GROUP}.{name}") for prefix in ("", "prev_") for name in _GROUP_STATE}
    )


def last_answers(headers: DataFrame, verdicts: DataFrame) -> DataFrame:
    """cluster, enriched: for each kind the last accepted poll that answered it, as in silver.progress."""
    poll = F.struct("poll_id", "at", "sent_at", "interval_ms")
    return (
        verdicts.where(F.col("verdict") == "accepted")
        .join(F.broadcast(headers.select("cluster", "poll_id", _answered_kinds())), ["cluster", "poll_id"])
        .groupBy("cluster", "kind")
        .agg(F.max(poll).alias("poll"))
        .groupBy("cluster")
        .agg(F.map_from_entries(F.collect_list(F.struct("kind", "poll"))).alias("enriched"))
    )


def _answered_kinds() -> Column:
    answered = F.map_filter("enriched", lambda _, outcome: outcome == ANSWERED)
    return F.explode(F.map_keys(answered)).alias("kind")


def _thing(**columns: Column) -> Column:
    """A thing with these columns of key and state, topic aside."""
    wanted = {name: type_ for name, type_ in (_KEYS | _STATES).items() if name != "topic"}
    return F.struct(*(columns.get(name, F.lit(None)).cast(type_).alias(name) for name, type_ in wanted.items()))


def _things_of(kind: str) -> Column:
    """What a bronze row of this kind says, an array of things."""
    match kind:
        case "configs":
            min_isr = F.try_element_at("configs", F.lit("min.insync.replicas"))
            unclean = F.try_element_at("configs", F.lit("unclean.leader.election.enable"))
            return F.array(
                _thing(
                    min_insync_replicas=min_isr.try_cast("int"),
                    unclean_leader_election_enable=unclean.try_cast("boolean"),
                )
            )
        case "quorum":
            return F.array(
                _thing(
                    controller_id=F.col("quorum.leader_id"),
                    quorum_epoch=F.col("quorum.leader_epoch"),
                    voters=F.array_sort("quorum.voters"),
                )
            )
        case "fenced":
            return F.transform(
                kind, lambda b: _thing(**{name: b[name] for name in ("broker_id", "host", "port", "rack")})
            )
        case "groups":
            return F.transform(kind, lambda g: _thing(group_id=g["group_id"], group=_group_state(g)))
        case "reassignments":
            names = {"adding_replicas": "adding", "removing_replicas": "removing"}
        case "elr":
            names = {"elr": "elr", "last_known_elr": "last_known_elr"}
    return F.transform(
        kind,
        lambda p: _thing(partition=p["partition"], **{name: F.array_sort(p[said]) for name, said in names.items()}),
    )


def _group_state(group: Column) -> Column:
    """The state of a group as bronze has it; null where it could not be told this time."""
    return F.when(
        ~F.coalesce(group["error"].startswith(FAILED), F.lit(False)), F.struct(*(group[name] for name in _GROUP_STATE))
    )


def _as_things(kind: str, rows: DataFrame) -> DataFrame:
    """The open rows of a kind's table."""
    columns = dict.fromkeys((*_KEYS, *_STATES), F.lit(None))
    columns |= {name: F.col(name) for name in ENRICHMENTS[kind].column_names if name in columns}
    if ENRICHMENTS[kind] is GROUP_SNAPSHOTS:
        columns[_GROUP] = F.struct(*_GROUP_STATE)
    return rows.select(
        "cluster",
        F.lit(kind).alias("kind"),
        *(columns[name].cast(type_).alias(name) for name, type_ in (_KEYS | _STATES).items()),
        "first_poll",
    )


def _ended_as() -> Column:
    """Why a thing is gone: one that has no topic, or of which the poll covers the topic, is no more."""
    is_covered = presence.covered(F.col("topic_filter"), F.coalesce("topic", F.lit("")))
    is_known = F.col("topic").isNull() | is_covered
    return F.when(is_known, F.lit(presence.ABSENT)).otherwise(F.lit(presence.NOT_POLLED))
