"""What a recorder appends, kept in memory in the place of a spool."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from metadata_source.columns.polls import POLLS
from metadata_source.recorder.news import News


class Entry(NamedTuple):
    """An entry."""

    cluster: str
    at_ms: int
    rows: list[dict[str, Any]]
    news: News
    is_key_frame: bool
    ok: bool

    @property
    def header(self) -> dict[str, Any]:
        (found,) = [row for row in self.rows if row["record"] == "poll"]
        return found

    @property
    def topics(self) -> list[str]:
        """The topics that it has rows of."""
        return [row["topic"] for row in self.rows if row["record"] == "topic"]

    @property
    def outcomes(self) -> dict[str, str]:
        """Of the answers beside the poll."""
        return {row["kind"]: row["outcome"] for row in self.rows if row["record"] == "answer"}


class Kept:
    """Keeps entries, as long as there is `has_room`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.entries: list[Entry] = []
        self.has_room = True
        self.refused = 0
        self.stumbles = False

    def append(
        self,
        cluster: str,
        at_ms: int,
        batches: Sequence[pa.RecordBatch],
        news: News,
        *,
        is_key_frame: bool,
        ok: bool,
    ) -> bool:
        rows = pa.Table.from_batches(batches, POLLS).to_pylist()
        with self._changed:
            if self.stumbles:
                self.refused += 1
                self._changed.notify_all()
                raise OSError("the folder is gone")
            if self.has_room:
                self.entries.append(Entry(cluster, at_ms, rows, news, is_key_frame, ok))
            else:
                self.refused += 1
            self._changed.notify_all()
            return self.has_room

    def of(self, cluster: str) -> list[Entry]:
        """Those of a cluster."""
        return [each for each in self.entries if each.cluster == cluster]

    def until(self, check: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until a check of the entries holds."""
        with self._changed:
            assert self._changed.wait_for(check, seconds), [
                (each.header, each.outcomes) for each in self.entries
            ]
