"""Streaming queries that end when a test says so, in the place of Spark's, and a clock that passes
where somebody waits.
"""

from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException

from jobs.run import streams
from jobs.run.streams import Running

LOG_IS_AWAY = StreamingQueryException(
    "[KAFKA_METADATA_GROUP_LOG] timeout: cluster orders: nobody answers"
)


class Query:
    """A query that runs, or has ended with an error, before it got anywhere or later."""

    def __init__(self, error: Exception | None = None, *, has_progress: bool = False) -> None:
        self.error, self.isActive = error, error is None
        self.lastProgress = object() if has_progress else None
        self.clusters: list[str] = []
        self.name = "polls"

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - as Spark has it
        if self.error is not None:
            raise self.error
        return not self.isActive or timeout is not None

    def stop(self) -> None:
        self.isActive = False

    def end(self, error: Exception) -> None:
        self.error, self.isActive = error, False


class Streams:
    """Spark's streams, of which one ends: `outcome` is what Spark says of that, or raises."""

    def __init__(self, outcome: bool | Exception) -> None:
        self.outcome, self.was_reset = outcome, False

    def awaitAnyTermination(self, timeout: float) -> bool:  # noqa: N802
        assert timeout < 1
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def resetTerminated(self) -> None:  # noqa: N802
        self.was_reset = True


def polling(*queries: Query) -> Running:
    """A stream of polls with these queries, one after the other."""
    found = iter(queries)
    return Running(lambda: next(found))  # type: ignore[arg-type, return-value]


def query_of(stream: Running) -> Query:
    return stream.query  # type: ignore[return-value]


CRASHED = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python worker exited "
    "SQLSTATE: XXKST"
)


class Clock:
    """Time that passes where somebody waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(
            streams, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)
        )
        monkeypatch.setattr(streams, "_AGAIN_AFTER_S", 1.0)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


READ_ONLY = StreamingQueryException(
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: /lake/offsets/.7.tmp "
    "(Read-only file system)"
)
