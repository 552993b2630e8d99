"""Rows of a lake about the cluster with the alias ALIAS."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from kafka_metadata_history.opened import without_spark
from schemas import bronze, incidents, silver
from schemas.lake import Lake
from schemas.table import Table, View
from truth.chaos import Entry
from truth.compare_answers import Answered
from truth.compare_stale import Heard, heard
from truth.incident_rows import Event, Finding, Incident, Told
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


def polls(lake: Lake, journal: Sequence[Entry]) -> list[Poll]:
    """The good polls of the cluster."""
    return polls_of(
        read(lake, bronze.METADATA_POLLS, _POLL_COLUMNS, "record IN ('poll', 'topic')"), journal
    )


def failed_polls(lake: Lake) -> int:
    """How many polls got no answer."""
    return len(read(lake, bronze.METADATA_POLLS, ["poll_id"], "outcome = 'failed'"))


def witnesses(lake: Lake) -> list[Heard]:
    """The answers of brokers beside the one that answered a good poll, given with it."""
    return heard(
        read(lake, bronze.METADATA_POLLS, ["witnesses"], "record = 'poll' AND outcome = 'ok'")
    )


def answered(lake: Lake) -> list[Answered]:
    """What was asked beside polls."""
    return rows_of(lake, bronze.METADATA_POLLS, Answered, "record = 'answer'")


def states(lake: Lake) -> list[Seen]:
    """The rows of silver.partition_snapshots, Kafka's internal topics included."""
    return rows_of(lake, silver.PARTITION_SNAPSHOTS, Seen)


def brokers(lake: Lake) -> list[SeenBroker]:
    """The rows of silver.broker_snapshots."""
    return rows_of(lake, silver.BROKER_SNAPSHOTS, SeenBroker)


def told(lake: Lake) -> Told:
    """All that is told of incidents."""
    return Told(
        rows_of(lake, incidents.INCIDENTS, Incident),
        rows_of(lake, incidents.INCIDENT_LINKS, Finding),
        rows_of(lake, incidents.EVENTS, Event),
    )


def rows_of(lake: Lake, table: Table | View, kind: type[Row], where: str = "true") -> list[Row]:
    """Rows of a table as records of a kind, which has some of its columns."""
    return [
        kind(
            **{
                name: tuple(value) if isinstance(value, list) else value
                for name, value in row.items()
            }
        )
        for row in read(lake, table, kind.__dataclass_fields__, where)
    ]


def read(
    lake: Lake, table: Table | View, columns: Iterable[str], where: str = "true"
) -> list[dict[str, Any]]:
    """These columns of rows of a table."""
    names = ", ".join(f"`{name}`" for name in columns)
    query = f"SELECT {names} FROM {table.full_name} WHERE cluster = '{ALIAS}' AND ({where})"  # noqa: S608 - our own
    rows = without_spark(lake)(query)
    return rows.to_pylist(maps_as_pydicts="strict")
