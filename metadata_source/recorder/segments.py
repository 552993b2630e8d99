"""Segments of a spool: two files each, one with rows and one with a line for each entry."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from metadata_source.recorder.folder import as_line
from metadata_source.recorder.news import News

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PACK_BYTES: Final = 8 << 20
"""The most that one task of a batch gets, but for a single entry."""
_SEGMENT: Final = re.compile(r"(\d{8})\.(?:arrows|index)")


@dataclass(frozen=True, slots=True)
class Entry:
    """One poll of one cluster in a spool, with the answers beside it.

    `seq` counts the spool's entries, `number` those of the cluster, both from 1. `at_ms`: when the
    poll was due, ms since the epoch. `ok`: whether it is a good poll. `run`: the recorder that
    wrote it. `begin`, `end`: its bytes in the segment, `batches` messages with a record batch each;
    `crc` is their CRC-32.
    """

    seq: int
    cluster: str
    number: int
    at_ms: int
    news: News
    is_key_frame: bool
    ok: bool
    run: str
    segment: int
    begin: int
    end: int
    batches: int
    crc: int

    def line(self) -> bytes:
        """Return the entry's line in the index."""
        about = (
            self.seq,
            self.cluster,
            self.number,
            self.at_ms,
            self.news.name,
            self.is_key_frame,
            self.ok,
        )
        return as_line([*about, self.begin, self.end, self.batches, self.crc])

    @classmethod
    def of(cls, line: Any, run: str, segment: int) -> Self:
        """Read what `line` writes. Raises ValueError, TypeError or KeyError for anything else."""
        seq, cluster, number, at_ms, news, is_key_frame, ok, begin, end, batches, crc = line
        about = seq, cluster, number, at_ms, News[news], is_key_frame, ok
        return cls(*about, run, segment, begin, end, batches, crc)


@dataclass(slots=True)
class Segment:
    """A segment as far as it is known: its index, read up to `read`.

    `run` is None until the first line is read, which says also how long the schema's message is,
    and how far entries and those of each cluster were counted before: `seq`, `numbers`.
    """

    folder: Path
    id: int
    read: int = 0
    run: str | None = None
    schema_end: int = 0
    seq: int = 0
    numbers: dict[str, int] = field(default_factory=dict)
    last: int = 0
    """The last entry in it."""
    is_closed: bool = False
    """Whether nothing comes any more."""

    @property
    def arrows(self) -> Path:
        """The file that has the rows."""
        return self.folder / f"{self.id:08}.arrows"

    @property
    def index(self) -> Path:
        """The file that has a line for each entry."""
        return self.folder / f"{self.id:08}.index"

    def more(self) -> list[Entry]:
        """Return the entries that came since, those alone whose bytes are there."""
        try:
            with self.index.open("rb") as file:
                file.seek(self.read)
                lines = file.read()
            size = self.arrows.stat().st_size
        except FileNotFoundError:
            return []
        lines = lines[: lines.rfind(b"\n") + 1]
        self.read += len(lines)
        found = []
        for line in lines.splitlines():
            with suppress(ValueError, TypeError, KeyError):
                given = json.loads(line)
                if self.run is None:
                    self.run, self.schema_end, self.seq, self.numbers = given
                    continue
                entry = Entry.of(given, self.run, self.id)
                if entry.end <= size:
                    found.append(entry)
        self.last = max([self.last, *(entry.seq for entry in found)])
        return found

    def head(self) -> bytes:
        """Return the first line of the index."""
        return as_line([self.run, self.schema_end, self.seq, self.numbers])

    def remove(self) -> None:
        """Remove both files."""
        for path in (self.arrows, self.index):
            path.unlink(missing_ok=True)


def packs(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield successive entries together that have at most PACK_BYTES bytes; a larger one alone."""
    pack: list[Entry] = []
    size = 0
    for entry in entries:
        size += entry.end - entry.begin
        if pack and size > PACK_BYTES:
            yield pack
            pack, size = [], entry.end - entry.begin
        pack.append(entry)
    if pack:
        yield pack


def ranges(entries: Iterable[Entry]) -> Iterator[tuple[int, int, int]]:
    """Yield segment, begin and end of entries that follow each other there."""
    found: tuple[int, int, int] | None = None
    for entry in entries:
        if found is not None and found[::2] == (entry.segment, entry.begin):
            found = entry.segment, found[1], entry.end
            continue
        if found is not None:
            yield found
        found = entry.segment, entry.begin, entry.end
    if found is not None:
        yield found


def segment_ids(folder: Path) -> list[int]:
    """Return the ids of the segments, in their order."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted({int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))})
