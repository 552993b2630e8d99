"""What a lake says, brought out of Spark."""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from schemas import bronze, silver
from schemas.lake import Lake
from truth.chaos import Entry
from truth.observed import Poll, Seen, polls_of

_POLL_COLUMNS = (
    "poll_id",
    "record",
    "topic",
    "outcome",
    "key_frame",
    "sent_at",
    "received_at",
    "interval_ms",
    "broker_id",
    "present",
    "topic_id",
    "partitions",
)


def polls(spark: SparkSession, lake: Lake, journal: Sequence[Entry]) -> list[Poll]:
    """The good polls of the lake's one cluster."""
    rows = lake.read(spark, bronze.METADATA_POLLS).where(F.col("record").isin("poll", "topic")).select(*_POLL_COLUMNS)
    return polls_of(rows.toArrow().to_pylist(), journal)


def failed_polls(spark: SparkSession, lake: Lake) -> int:
    """How many polls got no answer."""
    return lake.read(spark, bronze.METADATA_POLLS).where("outcome = 'failed'").count()


def states(spark: SparkSession, lake: Lake) -> list[Seen]:
    """The rows of silver.partition_snapshots, Kafka's internal topics included."""
    columns = list(Seen.__dataclass_fields__)
    rows = lake.read(spark, silver.PARTITION_SNAPSHOTS).select(*columns).toArrow().to_pylist()
    return [
        Seen(**{name: tuple(value) if isinstance(value, list) else value for name, value in row.items()})
        for row in rows
    ]


def finalized_level(spark: SparkSession, lake: Lake) -> int | None:
    """The last metadata.version level that silver knows."""
    rows = lake.read(spark, silver.CLUSTER_SNAPSHOTS).where("is_current").select("metadata_version_level").collect()
    return rows[0][0] if rows else None
