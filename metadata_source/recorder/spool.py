"""The spool: a folder of this machine in which recorded polls wait until Spark has committed them.

`lock` is held by the recorder that writes, `owner.json` says which one that is or was last,
`spool.json` which spool this is. A segment is two files: `NNNNNNNN.arrows`, an IPC stream whose end
is left out, and `NNNNNNNN.index`, a line of JSON for each entry, which is written once the entry's
bytes are with the system. The first line of an index says which recorder wrote the segment, how
long the message with the schema is, and how far all that came before it counted. So whatever a
killed recorder or a power cut leaves of the files, an entry is there whole or is none, and no
number is given twice that an offset may name. `committed.json` has the last entry that a stream is
known to have committed.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
import zlib
from bisect import bisect_right
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Final, Self

from metadata_source.columns.polls import POLLS
from metadata_source.combined import combined
from metadata_source.recorder.folder import (
    SPOOL_VERSION,
    GoneError,
    Owner,
    SpoiltError,
    SpoolError,
    TakenOverError,
    hold_lock,
    is_lock_of,
    is_temporary,
    prepare,
    read_json,
    spool_id,
    sync_file,
    unusable,
    write_all,
    write_json,
    write_owner,
)
from metadata_source.recorder.segments import Entry, Segment, packs, ranges, segment_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from metadata_source.recorder.news import News

__all__ = ["SPOOL_VERSION", "Entry", "Owner", "Spool", "SpoolError", "Spooled", "TakenOverError"]

SPOOL_BYTES: Final = 1 << 30
"""The most that a spool holds."""
_SEGMENT_BYTES: Final = 8 << 20
_SEGMENT_S: Final = 60.0
_COUNTED_EVERY_S: Final = 1.0
"""How often a full spool looks whether there is room again."""
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""The end of an IPC stream."""


class Spool:
    """A spool to write to, by one process at a time. Of any thread."""

    def __init__(self, folder: Path, owner: Owner, lock: int) -> None:
        """Continue the spool whose lock is held; see `open`."""
        self.folder, self._owner, self._held = folder, owner, lock
        self._lock = threading.Lock()
        self._seq, self._numbers = 0, dict[str, int]()
        segments = [Segment(folder, id_) for id_ in segment_ids(folder)]
        self._id = segments[-1].id if segments else 0
        for segment in segments:
            entries = segment.more()  # the reader sees which of them a power cut has spoilt
            self._seq = max([self._seq, segment.seq, *(entry.seq for entry in entries)])
            for cluster, number in [
                *segment.numbers.items(),
                *((each.cluster, each.number) for each in entries),
            ]:
                self._numbers[cluster] = max(number, self._numbers.get(cluster, 0))
        self._seq = max(self._seq, committed_in(folder))
        self._schema = POLLS.serialize().to_pybytes()
        self._files: tuple[int, int] | None = None
        self._end = self._before = 0
        self._begun_at = self._counted_at = float("-inf")

    @classmethod
    def open(cls, folder: Path, owner: Owner) -> Self:
        """Hold the folder's lock, and make its spool, or continue it. Raises SpoolError."""
        prepare(folder)
        try:
            lock = hold_lock(folder)
            try:
                if spool_id(folder) is None:
                    about = {"version": SPOOL_VERSION, "id": token_hex(8)}
                    write_json(folder / "spool.json", about, is_lasting=True)
                write_owner(folder, owner)
                return cls(folder, owner, lock)
            except BaseException:
                os.close(lock)
                raise
        except OSError as error:
            raise unusable(folder, error) from None

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
        """Append an entry: rows of POLLS, whose stream, number and id readers give. False where the
        spool or the disk has no room: then nothing of it is kept.
        """
        if not all(batch.schema.equals(POLLS) for batch in batches):
            raise ValueError("a spool takes rows of polls alone")
        messages = [batch.serialize().to_pybytes() for batch in combined(batches)]
        data = b"".join(messages)
        crc = zlib.crc32(data)
        with self._lock:
            try:
                if not self._has_room(len(data)):
                    return False
                files = self._files or self._begun()
            except OSError:
                return False
            begin, end, number = self._end, self._end + len(data), self._numbers.get(cluster, 0) + 1
            about = self._seq + 1, cluster, number, at_ms, news, is_key_frame, ok
            entry = Entry(*about, self._owner.run, self._id, begin, end, len(messages), crc)
            if not self._is_written(files, data, entry.line()):
                return False
            self._seq, self._end = entry.seq, end
            self._numbers[cluster] = number
        return True

    def close(self) -> None:
        """Let go of the lock. A temporary spool is removed."""
        with self._lock:
            self._close_segment()
            if is_temporary(self.folder) and not self.is_removed:  # else it is another recorder's
                shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._held)

    @property
    def is_removed(self) -> bool:
        """Whether somebody has removed the folder, or its lock: another recorder may have made it
        again. False where nobody can tell.
        """
        try:
            return not is_lock_of(self._held, self.folder)
        except OSError:
            return False

    def _has_room(self, size: int) -> bool:
        """Whether the spool may hold so many bytes more. What is there is counted when a segment
        begins, and now and then while the spool is full.
        """
        now = time.monotonic()
        if self._end >= _SEGMENT_BYTES or now - self._begun_at >= _SEGMENT_S:
            self._close_segment()
        is_full = self._before + self._end + size > SPOOL_BYTES
        if (is_full or self._files is None) and now - self._counted_at > _COUNTED_EVERY_S:
            own = f"{self._id:08}.arrows" if self._files else None
            self._before, self._counted_at = _bytes_in(self.folder, own), now
        return self._before + self._end + size <= SPOOL_BYTES

    def _begun(self) -> tuple[int, int]:
        """Begin a segment; return its files. Raises OSError, also where another may write there."""
        if self.is_removed:
            raise FileNotFoundError(errno.ENOENT, "the spool was removed", str(self.folder))
        segment = Segment(
            self.folder,
            self._id + 1,
            0,
            self._owner.run,
            len(self._schema),
            self._seq,
            self._numbers,
        )
        files: list[int] = []
        try:
            for path, content in ((segment.arrows, self._schema), (segment.index, segment.head())):
                files.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
                write_all(files[-1], content)
        except OSError:
            for file in files:
                os.close(file)
            segment.remove()
            raise
        self._files = files[0], files[1]
        self._id, self._end, self._begun_at = segment.id, len(self._schema), time.monotonic()
        return self._files

    def _is_written(self, files: tuple[int, int], data: bytes, line: bytes) -> bool:
        """Write an entry, its line last. False where that failed, and nothing of it is kept."""
        sizes = self._end, os.lseek(files[1], 0, os.SEEK_CUR)
        try:
            for file, content in zip(files, (data, line), strict=True):
                write_all(file, content)
        except OSError:
            try:
                for file, size in zip(files, sizes, strict=True):
                    os.ftruncate(file, size)
                    os.lseek(file, size, os.SEEK_SET)
            except OSError:
                self._close_segment()  # half a line is none, and nothing comes after it
            return False
        return True

    def _close_segment(self) -> None:
        for file in self._files or ():
            os.close(file)
        self._files, self._end = None, 0
        self._begun_at = self._counted_at = float("-inf")


def committed_in(folder: Path) -> int:
    """Return the last entry of a spool that a stream let go of."""
    return int((read_json(folder / "committed.json") or {}).get("seq", 0))


def _bytes_in(folder: Path, but: str | None) -> int:
    """Return how many bytes the files of a folder have, but for one of them."""
    found = 0
    for each in os.scandir(folder):
        if each.name != but:
            with suppress(FileNotFoundError):
                found += each.stat().st_size
    return found


class Spooled:
    """A spool to read from, by the one stream that commits what is in it."""

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet."""
        self.folder = folder
        self.id = spool_id(folder)
        """None where no recorder has made a spool yet."""
        self._segments: dict[int, Segment] = {}
        self._entries: list[Entry] = []
        self._spoilt: set[int] = set()
        self._synced: set[int] = set()
        self._synced_to = 0

    @property
    def committed(self) -> int:
        """The last entry that a stream let go of."""
        return committed_in(self.folder)

    @property
    def broken(self) -> int | None:
        """The last entry of a batch that was made again with less than it had: what comes after it
        lacks what it follows.
        """
        return (read_json(self.folder / "broken.json") or {}).get("seq")

    def note_broken(self, seq: int) -> None:
        """Note the last entry of such a batch. Raises SpoolError: the next batch needs it."""
        try:
            write_json(self.folder / "broken.json", {"seq": seq}, is_lasting=True)
        except OSError as error:
            raise unusable(self.folder, error) from None

    @property
    def newest_seq(self) -> int:
        """The last entry that the spool is known to have had."""
        return max(
            (max(segment.seq, segment.last) for segment in self._segments.values()), default=0
        )

    def after(self, seq: int) -> list[Entry]:
        """Return the entries after one, in their order."""
        ids = segment_ids(self.folder)
        for id_ in ids:
            segment = self._segments.setdefault(id_, Segment(self.folder, id_))
            if not segment.is_closed:
                self._entries += segment.more()
                segment.is_closed = id_ != ids[-1]
        return self._entries[bisect_right(self._entries, seq, key=lambda entry: entry.seq) :]

    def bytes_of(self, entries: Iterable[Entry]) -> list[bytes]:
        """Return IPC streams of successive entries, one for each of their `packs`. Raises
        GoneError, and SpoiltError where bytes are others than were written: those entries are none
        from then on.
        """
        found = [self._stream_of(pack) for pack in packs(entries)]
        if self._spoilt:
            gone, self._spoilt = self._spoilt, set()
            self._entries = [entry for entry in self._entries if entry.seq not in gone]
            raise SpoiltError(f"{self.folder}: {len(gone)} entries are not as they were written")
        return found

    def _stream_of(self, pack: Sequence[Entry]) -> bytes:
        parts: list[bytes] = []
        of_range = iter(pack)
        try:
            for segment, begin, end in ranges(pack):
                with self._segments[segment].arrows.open("rb") as file:
                    if not parts:
                        parts.append(file.read(self._segments[segment].schema_end))
                    file.seek(begin)
                    parts.append(file.read(end - begin))
                    if len(parts[-1]) < end - begin:
                        raise GoneError(
                            f"{file.name}: {end - begin} bytes are there no more; the batch is "
                            "made again"
                        )
                    content = memoryview(parts[-1])
                    while content:
                        entry = next(of_range)
                        size = entry.end - entry.begin
                        if zlib.crc32(content[:size]) != entry.crc:
                            self._spoilt.add(entry.seq)
                        content = content[size:]
        except OSError as error:
            raise GoneError(f"{self.folder}: {error.strerror}; the batch is made again") from None
        return b"".join([*parts, _END])

    def sync(self, seq: int) -> None:
        """See that a power cut takes none of the entries up to one. Raises SpoolError."""
        begin = bisect_right(self._entries, self._synced_to, key=lambda entry: entry.seq)
        end = bisect_right(self._entries, seq, key=lambda entry: entry.seq)
        segments = [
            self._segments[id_]
            for id_ in sorted({entry.segment for entry in self._entries[begin:end]})
        ]
        try:
            for path in (path for segment in segments for path in (segment.arrows, segment.index)):
                sync_file(path)
            if not self._synced >= {segment.id for segment in segments}:
                sync_file(self.folder)
        except OSError as error:
            raise unusable(self.folder, error) from None
        self._synced |= {segment.id for segment in segments}
        self._synced_to = max(seq, self._synced_to)

    def let_go(self, seq: int) -> None:
        """Remove the segments of which no entry comes after one; never the newest, by whose first
        line entries are counted on.
        """
        self.after(seq)
        with suppress(OSError):
            if seq > self.committed:
                write_json(self.folder / "committed.json", {"seq": seq})
        gone = {
            id_
            for id_, segment in self._segments.items()
            if segment.is_closed and segment.last <= seq
        }
        newest = max(self._segments, default=0)
        if not gone:
            return
        with suppress(OSError):  # they go another time
            sync_file(self._segments[newest].index)
            sync_file(self.folder)
            for id_ in gone:
                self._segments[id_].remove()
                del self._segments[id_]
                self._synced.discard(id_)
        self._entries = [entry for entry in self._entries if entry.segment in self._segments]
