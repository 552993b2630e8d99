"""Rows of a lake about the cluster with the alias ALIAS, brought out of Spark."""

from collections.abc import Sequence
from typing import Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from schemas import bronze, silver
from schemas.lake import Lake
from schemas.table import Table
from truth.chaos import Entry
from truth.compare_stale import Heard, heard
from truth.observed import Poll, Seen, SeenBroker, polls_of

ALIAS: Final = "local"
"""Of the cluster in the configuration."""

Row = TypeVar("Row")
"""A record whose fields are columns of a table."""

_POLL_COLUMNS = (
    "poll_id",
    "record",
    "topic",
    "outcome",
    "is_key_frame",
    "sent_at",
    "received_at",
    "interval_ms",
    "broker_id",
    "brokers",
    "digest",
    "witnesses",
    "present",
    "topic_id",
    "partitions",
)


def polls(spark: SparkSession, lake: Lake, journal: Sequence[Entry]) -> list[Poll]:
    """The good polls of the cluster."""
    rows = _read(spark, lake, bronze.METADATA_POLLS).where(F.col("record").isin("poll", "topic")).select(*_POLL_COLUMNS)
    return polls_of(rows.toArrow().to_pylist(), journal)


def failed_polls(spark: SparkSession, lake: Lake) -> int:
    """How many polls got no answer."""
    return _read(spark, lake, bronze.METADATA_POLLS).where("outcome = 'failed'").count()


def witnesses(spark: SparkSession, lake: Lake) -> list[Heard]:
    """The answers of brokers beside the one that answered a good poll, given with it."""
    headers = _read(spark, lake, bronze.METADATA_POLLS).where("record = 'poll' AND outcome = 'ok'").select("witnesses")
    return heard(headers.toArrow().to_pylist())


def states(spark: SparkSession, lake: Lake) -> list[Seen]:
    """The rows of silver.partition_snapshots, Kafka's internal topics included."""
    return rows_of(spark, lake, silver.PARTITION_SNAPSHOTS, Seen)


def brokers(spark: SparkSession, lake: Lake) -> list[SeenBroker]:
    """The rows of silver.broker_snapshots."""
    return rows_of(spark, lake, silver.BROKER_SNAPSHOTS, SeenBroker)


def rows_of(spark: SparkSession, lake: Lake, table: Table, kind: type[Row], where: str = "true") -> list[Row]:
    """Rows of a table as records of a kind, which has some of its columns."""
    rows = _read(spark, lake, table).where(where).select(*kind.__dataclass_fields__).toArrow().to_pylist()
    return [
        kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})
        for row in rows
    ]


def _read(spark: SparkSession, lake: Lake, table: Table) -> DataFrame:
    return lake.read(spark, table).where(F.col("cluster") == ALIAS)
