"""A query that reads a spool without Spark, its clock, and recorders that poll once."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from metadata_source.columns.polls import POLLS
from metadata_source.datasource import KafkaMetadataSource
from metadata_source.recorder import reader
from metadata_source.recorder.news import News
from metadata_source.recorder.reader import StreamReader
from metadata_source.recorder.start import Hold
from tests.support.spools import BEGIN_MS, opened, record

OPTIONS = {"clusters": '{"east": {}, "west": {}}', "kafka.bootstrap.servers": "one:9092"}


class Query:
    """A query that makes batches of a spool. `rows`: all that it has committed."""

    def __init__(self, folder, offset: dict | None = None, **options: str) -> None:
        given = (
            OPTIONS
            | {"spool": str(folder), "recorder": "token", "minCommitInterval": "100ms"}
            | options
        )
        source = KafkaMetadataSource(given)
        self.reader = source.streamReader(source.schema())
        assert isinstance(self.reader, StreamReader)
        self.offset = offset or self.reader.initialOffset()
        self.rows: list[dict] = []

    def plan(self) -> dict:
        """The end of the next batch, as the checkpoint has it."""
        return json.loads(json.dumps(self.reader.latestOffset(self.offset, None)))

    def read(self, end: dict) -> list[dict]:
        """The rows of a batch, as workers make them."""
        worker = pickle.loads(pickle.dumps(self.reader))  # noqa: S301 - our own bytes
        tasks = [
            pickle.loads(pickle.dumps(task))  # noqa: S301
            for task in self.reader.partitions(self.offset, end)
        ]
        batches = [batch for task in tasks for batch in worker.read(task)]
        assert all(batch.schema.equals(POLLS) for batch in batches)
        return pa.Table.from_batches(batches, POLLS).to_pylist()

    def batch(self, *, commits: bool = True) -> list[dict]:
        """Make the next batch; its rows."""
        end = self.plan()
        rows = self.read(end)
        self.rows += rows
        self.offset = end
        if commits:
            self.reader.commit(end)
        return rows


def headers(rows) -> list[tuple]:
    """Cluster, number, what the poll says or why nobody has it, of headers in their order."""
    found = [row for row in rows if row["record"] == "poll"]
    for row in found:
        assert row["poll_id"] == f"{row['stream']}/{row['n']:012d}"
    return sorted((row["cluster"], row["n"], row["broker"] or row["error_kind"]) for row in found)


class Clock:
    """The reader's clocks, which stop but while it sleeps. `now_s`: since BEGIN_MS."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self._then: list[tuple[float, Callable[[], object]]] = []
        patch.setattr(reader, "time", self)

    def monotonic(self) -> float:
        return self.now_s

    def time_ns(self) -> int:
        return (BEGIN_MS + round(self.now_s * 1000)) * 1_000_000

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for each in [each for each in self._then if each[0] <= self.now_s]:
            self._then.remove(each)
            each[1]()

    def then(self, seconds: float, change: Callable[[], object]) -> None:
        """Make a change so much later."""
        self._then.append((self.now_s + seconds, change))


def once(monkeypatch: pytest.MonkeyPatch, records: list[Callable[[Path], int]]) -> list[int]:
    """Recorders that poll once are these functions, each in its turn; how they ended."""
    ended: list[int] = []

    class Process:
        def __init__(self, folder) -> None:
            self.status = records.pop(0)(folder)
            ended.append(self.status)

        def poll(self) -> int:
            return self.status

    monkeypatch.setattr(Hold, "record_once", lambda self: Process(self._spool))
    return ended


def polls_once(folder: Path) -> int:
    again = opened(folder, run="once")
    for cluster in ("east", "west"):
        record(again, cluster, 9, key=True, news=News.NEWS)
    again.close()
    return 0
