"""What all events of partitions have: their place, an id, bounds in time, and the states that held at a poll."""

from pyspark.sql import Column
from pyspark.sql import functions as F

PARTITION = ("cluster_id", "topic", "partition")
GROUP = ("cluster_id", "group_id")
PLACE = ("cluster_id", "cluster", "topic", "topic_id", "partition")


def began() -> list[Column]:
    """poll, began_after and began_by of an event that a state of silver began with."""
    return [
        F.col("first_poll").alias("poll"),
        F.col("prev_sent_at").alias("began_after"),
        F.col("first_seen_at").alias("began_by"),
    ]


def row_id(*columns: str | Column) -> Column:
    """The id of a gold row: a hash of its key and its opening poll."""
    values = (F.col(column) if isinstance(column, str) else column for column in columns)
    return F.md5(F.concat_ws("\n", *(F.coalesce(value.cast("string"), F.lit("")) for value in values)))


def ms(begin: str, end: str) -> Column:
    """Milliseconds from one time to another, whole ones."""
    return F.floor((F.unix_micros(end) - F.unix_micros(begin)) / 1000).cast("bigint")


def held_at(poll: str, first: str = "first_poll", superseded: str = "superseded_poll") -> Column:
    """Whether a state, or what an event began, held at `poll`: columns of its first poll and of the one that ended it."""
    return (F.col(first) <= F.col(poll)) & (F.col(superseded).isNull() | (F.col(superseded) > F.col(poll)))


def is_replica() -> Column:
    """Whether broker_id is one of the replicas."""
    return F.array_contains("replicas", F.col("broker_id"))
