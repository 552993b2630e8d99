"""The controllers' log as its source reads it, of a quorum that speaks bytes."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

from metadata_source.columns.cluster_log import SCHEMA
from metadata_source.logs.cluster import positions
from metadata_source.logs.cluster.datasource import KafkaClusterLogSource
from metadata_source.logs.cluster.log import ClusterLog
from metadata_source.logs.cluster.positions import LogPosition, Span
from metadata_source.logs.cluster.reader import read_span
from metadata_source.logs.cluster.watcher import LogWatcher
from metadata_source.logs.pace import Pace
from metadata_source.logs.tasks import spans
from metadata_source.options import Cluster, parse_cluster_log
from tests.support.quorum import BEGAN_MS, CLUSTER_ID, NO_OP, SCRAM, Quorum, topic

SERVERS = "kafka.controller.bootstrap.servers"
NOW = datetime(2026, 11, 25, tzinfo=UTC)
AT_ONCE = Pace(10**9)

Follow: TypeAlias = "Callable[..., Stream]"
"""Makes streams that are closed in the end."""


def options_of(quorum: Quorum, *nodes: int, **more: str) -> dict[str, str]:
    """Options of the source that give some controllers, or all."""
    given = {SERVERS: quorum.where(*nodes), "clusterId": CLUSTER_ID, "requestTimeout": "2s"}
    return given | more


def cluster_of(quorum: Quorum, *nodes: int) -> Cluster:
    return parse_cluster_log(options_of(quorum, *nodes)).clusters[0]


def at(record: int) -> datetime:
    """When a record was written."""
    return datetime.fromtimestamp(BEGAN_MS / 1000, UTC) + record * timedelta(milliseconds=500)


def batch_read(options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a batch read."""
    source = KafkaClusterLogSource(options)
    read = source.reader(source.schema())
    return shown(batch for task in read.partitions() for batch in read.read(task))


def shown(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Rows without nulls."""
    table = pa.Table.from_batches(list(batches), SCHEMA)
    table.validate(full=True)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


def told(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What rows are: of a span its fate and ends, else the offset and the topic, or the name of the
    type.
    """
    return [
        (
            row["went"],
            row["offset"],
            row.get("next_offset"),
            *([row["snapshot_offset"]] if "snapshot_offset" in row else []),
        )
        if row["record"] == "span"
        else (row["record"], row["offset"], row.get("topic", {}).get("topic") or row.get("name"))
        for row in rows
    ]


def rows_of_span(
    cluster: Cluster, span: Span, *, read_at: datetime = NOW, pace: Pace = AT_ONCE
) -> Iterator[pa.RecordBatch]:
    """As a task reads it, at another pace, and with less patience."""
    if span.truncated:
        return ClusterLog(parse_cluster_log({SERVERS: "h:1", "clusterId": "x"})).unread(
            span, "truncated", read_at
        )
    return read_span(cluster, span, read_at=read_at, timeout_ms=5_000, pace=pace)


class Stream:
    """The stream of one cluster: each call is a batch, by a watcher that lives and a reader of its
    own.
    """

    def __init__(self, quorum: Quorum, starting: Any = "earliest") -> None:
        self.cluster = cluster_of(quorum)
        self.watcher = LogWatcher(self.cluster, starting, 5_000)
        self.position: LogPosition | None = None

    def plan(self) -> list[Span]:
        before, seen = self.position, self.watcher.ask_extent(self.position)
        self.position = seen.first if before is None else positions.following(before, seen)
        self.position = LogPosition.from_json(json.loads(json.dumps(self.position.to_json())))
        return [] if before is None else list(spans({"c": before}, {"c": self.position}))

    def read(self, planned: list[Span]) -> list[dict[str, Any]]:
        return [row for span in planned for row in shown(rows_of_span(self.cluster, span))]

    def batch(self) -> list[dict[str, Any]]:
        return self.read(self.plan())

    def close(self) -> None:
        self.watcher.close()


@contextmanager
def listening(quorum: Quorum | None = None) -> Iterator[Quorum]:
    """A quorum whose controllers listen."""
    made = quorum or Quorum()
    with made.listening():
        yield made


def happen(quorum: Quorum, chance: random.Random) -> None:
    """Something that may happen to a quorum that loses nothing."""
    match chance.randrange(6):
        case 0 | 1 | 2:
            quorum.write(
                *(
                    chance.choice((NO_OP, SCRAM, topic(f"t{len(quorum.log)}")))
                    for _ in range(chance.randrange(9))
                )
            )
        case 3:
            quorum.elect(chance.choice((1, 2, 3)), epochs=chance.randrange(1, 4))
        case 4:
            quorum.snapshot(topic("state"))
        case 5 if quorum.snapshots:
            quorum.trim()
    quorum.a_time = chance.randrange(1, 9)


def cut_off(quorum: Quorum, chance: random.Random) -> None:
    """Other controllers take over, which have less."""
    end = chance.randrange(max(quorum.begin, 1), len(quorum.log) + 1)
    del quorum.log[end:]
    quorum.snapshots = {
        made: content for made, content in quorum.snapshots.items() if made.offset <= end
    }
    quorum.elect(chance.choice((1, 2, 3)), epochs=chance.randrange(1, 4))
    if quorum.begin == 0 and chance.random() < 0.3:
        quorum.snapshots.clear()
        quorum.snapshot(topic("state"))
