"""The stream of polls, as Spark reads it: batches of what a recorder has put into the spool.

On the driver the reader sees to the recorder, plans offsets and hands bytes out; its pickled
copies, in workers, make rows of these. It polls nobody.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from metadata_source.columns.polls import POLLS
from metadata_source.errors import OptionsError
from metadata_source.recorder.attended import Attended
from metadata_source.recorder.batches import Gap, batch, continues, planned
from metadata_source.recorder.folder import SpoiltError, last_owner
from metadata_source.recorder.offsets import Offset
from metadata_source.recorder.pace import Pace
from metadata_source.recorder.segments import packs
from metadata_source.recorder.spool import Spooled
from metadata_source.records import Planned, gap_rows, numbered
from metadata_source.schedule import day_of, mint_stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit

    from metadata_source.options import Options
    from metadata_source.recorder.spool import Entry

_LOOK_S: Final = 0.07
"""How often the spool is read: Spark would ask 67 times a second if told "nothing new"."""


@dataclass(frozen=True)
class Recorded(InputPartition):
    """Polls of one batch: an IPC stream of their rows, each poll's number and count of batches."""

    stream: str
    polls: tuple[tuple[int, int], ...]
    data: bytes

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with their numbers."""
        batches = iter(pa.ipc.open_stream(self.data))
        return numbered(self.stream, ((n, islice(batches, count)) for n, count in self.polls))


@dataclass(frozen=True)
class _Waiting:
    """Entries of the spool that no offset names yet, and after which one they count (`after`)."""

    entries: Sequence[Entry]
    after: int | None = None


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Batches of polls from a spool."""

    def __init__(self, options: Options, given: Mapping[str, str]) -> None:
        """Start nothing, make no folder: Spark plans with readers, too. `given`: all as texts."""
        self._options, self._given = options, dict(given)
        self._pace = Pace(options.commit_interval_ms / 1000, options.min_commit_interval_ms / 1000)
        self._available_now = False
        self._last_seq: int | None = None
        """The last entry of a run with AvailableNow."""
        self._attended: Attended | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the spool on the driver."""
        return self.__dict__ | {"_attended": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first batch, whose stream has no name yet."""
        return Offset().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take what the spool has, and one more poll of each cluster, and then no other."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Wait for a batch to be due; return its end. AvailableNow: `start` if none is left."""
        offset = Offset.from_json(start)
        self._check_stream(offset)
        if self._attended is None:
            self._attended = Attended(self._options, self._given, once=self._available_now)
        self._let_go(offset)
        waiting = self._available(offset) if self._available_now else self._due(offset)
        if waiting is None or (spooled := self._attended.spooled) is None or spooled.id is None:
            return start
        first = waiting.entries[0].at_ms
        stream = offset.stream or mint_stream(
            datetime.fromtimestamp(first / 1000, UTC), self._options.newest_stream
        )
        end = planned(
            offset,
            waiting.entries,
            session=spooled.id,
            stream=stream,
            after=waiting.after,
            doubted=self._options.doubted_clock,
        )
        spooled.sync(end.seq)
        self._pace.begin(time.monotonic(), has_left=end.seq < waiting.entries[-1].seq)
        return end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the tasks of a batch: entries that its offset names, and a row for those lost."""
        if start == end:
            return []
        before, offset = Offset.from_json(start), Offset.from_json(end)
        # It is committed, and if this spool is another machine's next, nobody says so later.
        self._let_go(before)
        spooled = self._spooled()
        if spooled is not None and spooled.id != offset.session:
            spooled = None
        while True:
            entries = [] if spooled is None else spooled.after(0)
            found = batch(before, offset, entries)
            try:
                data = (
                    spooled.bytes_of(entry for _, entry in found.polls)
                    if spooled is not None
                    else []
                )
                break
            except SpoiltError:  # then they are none, as if the spool had lost them
                continue
        if found.waits != offset.waits and spooled is not None:
            spooled.note_broken(offset.seq)
        stream = offset.stream or ""
        tasks = []
        if found.gaps:
            tasks.append(
                Recorded(
                    stream, tuple((gap.n, 1) for gap in found.gaps), _bytes_of(stream, found.gaps)
                )
            )
        numbers = {entry.seq: n for n, entry in found.polls}
        of_tasks = list(packs(entry for _, entry in found.polls))
        for pack, each in zip(of_tasks, data, strict=True):
            tasks.append(
                Recorded(stream, tuple((numbers[entry.seq], entry.batches) for entry in pack), each)
            )
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, Recorded)  # noqa: S101 - made by `partitions`
        return partition.rows()

    def commit(self, end: dict[str, Any]) -> None:
        """Let go of what is committed."""
        self._let_go(Offset.from_json(end))

    def stop(self) -> None:
        """Leave the spool, whose recorder polls for the next query."""
        if self._attended is not None:
            self._attended.end()

    def _check_stream(self, offset: Offset) -> None:
        newest = self._options.newest_stream
        if offset.stream is not None and newest is not None and offset.stream < newest:
            raise OptionsError(
                f"newestStream: there are polls of a newer stream ({newest}) than this "
                f"checkpoint's ({offset.stream}), whose polls would be no history any more: remove "
                "the checkpoint of this query (of the jobs: CHECKPOINTS/poll_metadata), and a new "
                "stream begins; two jobs must not poll into one lake"
            )

    def _spooled(self) -> Spooled | None:
        """Return the spool, also before a first batch: one that was cut off is run again."""
        if self._attended is not None:
            return self._attended.spooled
        return None if self._options.spool is None else Spooled(Path(self._options.spool))

    def _let_go(self, offset: Offset) -> None:
        spooled = self._spooled()
        if spooled is not None and spooled.id == offset.session:
            spooled.let_go(offset.seq)

    def _due(self, offset: Offset) -> _Waiting | None:
        """Return what waits, as soon as it is time for a batch of it."""
        assert self._attended is not None  # noqa: S101 - made by `latestOffset`
        self._pace.ask(time.monotonic())
        while True:
            self._attended.check()
            waiting = self._waiting(offset)
            if self._pace.is_due(waiting.entries, time.monotonic(), _now_ms()):
                return waiting
            time.sleep(_LOOK_S)

    def _available(self, offset: Offset) -> _Waiting | None:
        """Return the waiting entries up to the one more poll of each cluster; None if none wait."""
        assert self._attended is not None  # noqa: S101 - made by `latestOffset`
        if self._last_seq is None:
            self._attended.record_once()
        waiting = self._waiting(offset)
        if self._last_seq is None:
            self._last_seq = waiting.entries[-1].seq if waiting.entries else 0
        entries = [entry for entry in waiting.entries if entry.seq <= self._last_seq]
        return replace(waiting, entries=entries) if entries else None

    def _waiting(self, offset: Offset) -> _Waiting:
        spooled = self._spooled()
        if spooled is None:
            return _Waiting([])
        entries = spooled.after(offset.seq)
        if offset.stream is not None and continues(offset, spooled.id, spooled.newest_seq):
            return _Waiting(entries, offset.seq if offset.seq == spooled.broken else None)
        entries = spooled.after(spooled.committed)
        if offset.stream is not None:
            # A clock that was ahead must not keep polls out.
            until = min(offset.to_ms or 0, _now_ms())
            return _Waiting(
                entries, max((entry.seq for entry in entries if entry.at_ms <= until), default=0)
            )
        if self._options.newest_stream is None:
            return _Waiting(entries, 0)
        run = last_owner(spooled.folder)
        if run is None or self._attended is None or run.token != self._attended.token:
            return _Waiting([])  # which polls are of this run is known once it has a recorder
        older = (entry.seq for entry in entries if entry.run != run.run)
        return _Waiting(entries, max(older, default=0))


def _bytes_of(stream: str, gaps: Sequence[Gap]) -> bytes:
    """Return an IPC stream of the rows of polls that nobody has."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, POLLS) as writer:
        for gap in gaps:
            planned_poll = Planned(
                stream, gap.n, gap.cluster, day_of(gap.at_ms), scheduled_ms=gap.at_ms
            )
            for rows in gap_rows(planned_poll, gap.error_kind, gap.error):
                writer.write_batch(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
