"""Which polls of a spool a batch of the stream holds, their numbers, and those that nobody has.
Pure functions.

A poll whose rows are a difference says something only after the one before. So after polls that
nobody has, polls of the cluster count from its next key frame on; those until then are gone, too. A
failed poll says the same whatever came before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from metadata_source.recorder.offsets import Offset, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metadata_source.recorder.spool import Entry

BATCH_BYTES: Final = 64 << 20
"""The most that a batch takes from the spool, but for a single entry."""
LOST, HANDED_OVER, CLOCK = "lost", "handed_over", "clock"
"""Kinds of polls that nobody has."""
_WHY: Final = {
    LOST: "recorded here, and the spool has lost them, or the polls whose differences they are",
    HANDED_OVER: (
        "recorded here, and not committed before another machine, or another stream, took over"
    ),
    CLOCK: "recorded here by a clock that was ahead, before the polls that are kept said so",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """`count` polls of a cluster that nobody has, the last of them number `n`, due at `at_ms`.
    `kind`: see LOST.
    """

    cluster: str
    n: int
    count: int
    kind: str
    at_ms: int

    @property
    def error(self) -> str:
        """Why nobody has them, one line."""
        return f"{self.count} {'poll' if self.count == 1 else 'polls'} {_WHY[self.kind]}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The polls of a batch: entries of the spool in their order, each with its number in the
    stream, and those that nobody has. `waits`: see Offset.
    """

    polls: Sequence[tuple[int, Entry]]
    gaps: Sequence[Gap]
    waits: Mapping[str, str]


def batch(start: Offset, end: Offset, entries: Iterable[Entry]) -> Batch:
    """Return what the batch between two offsets holds, of the entries of its spool that are
    there.
    """
    begins = None if end.after is None else LOST if start.session == end.session else HANDED_OVER
    found: dict[str, dict[int, Entry]] = {alias: {} for alias in end.clusters}
    for entry in entries:
        if entry.seq <= end.seq and entry.cluster in found:
            found[entry.cluster][entry.number] = entry
    polls: list[tuple[int, Entry]] = []
    gaps: list[Gap] = []
    waits: dict[str, str] = {}
    for alias, span in end.clusters.items():
        waiting = begins or start.waits.get(alias, None if alias in start.clusters else LOST)
        places, waiting = _places(span, found[alias], end, waiting)
        polls += [
            (place.n, place.entry)
            for place in places
            if place.kind is None and place.entry is not None
        ]
        gaps += _gaps(alias, places, end)
        if waiting is not None:
            waits[alias] = waiting
    return Batch(sorted(polls, key=lambda poll: poll[1].seq), gaps, waits)


@dataclass(frozen=True, slots=True)
class _Place:
    """A number of a cluster, with its entry if the spool has it, and the kind of a poll that nobody
    has.
    """

    n: int
    entry: Entry | None
    kind: str | None


def _places(
    span: Span, entries: Mapping[int, Entry], end: Offset, waiting: str | None
) -> tuple[list[_Place], str | None]:
    """Return all numbers of a cluster in a batch, and the kind for which it waits at the end."""
    places = []
    for n in range(span.first, span.last + 1):
        entry = entries.get(span.number - (span.last - n))
        kind = None
        if entry is None:
            kind, waiting = LOST, waiting or LOST
        elif entry.seq <= (end.after or 0) or (
            waiting is not None and entry.ok and not entry.is_key_frame
        ):
            kind = waiting
        elif entry.ok and _is_doubted(entry, end):
            kind = waiting = CLOCK
        elif entry.is_key_frame:
            waiting = None
        places.append(_Place(n, entry, kind))
    return places, waiting


def _is_doubted(entry: Entry, end: Offset) -> bool:
    return end.doubted is not None and end.doubted[0] < entry.at_ms / 1000 < end.doubted[1]


def _gaps(alias: str, places: Sequence[_Place], end: Offset) -> Iterator[Gap]:
    """Yield a gap for each run of numbers of one kind. Its time is that of the last of them that is
    known, else of the poll that follows, or of the one before.
    """
    before: int | None = None
    runs = [(kind, list(run)) for kind, run in groupby(places, key=lambda place: place.kind)]
    for number, (kind, run) in enumerate(runs):
        times = [place.entry.at_ms for place in run if place.entry is not None]
        if kind is not None:
            following = (
                [place.entry.at_ms for place in runs[number + 1][1] if place.entry]
                if runs[number + 1 :]
                else []
            )
            known = (*times[-1:], *following[:1], before, end.to_ms, end.from_ms)
            at_ms = next((at for at in known if at is not None), 0)
            yield Gap(alias, run[-1].n, len(run), kind, at_ms)
        before = times[-1] if times else before


def continues(start: Offset, session: str | None, newest_seq: int) -> bool:
    """Whether the spool has what comes after an offset: it is the same, and not an old copy of
    it.
    """
    return start.session == session and start.seq <= newest_seq


def planned(
    start: Offset,
    entries: Sequence[Entry],
    *,
    session: str,
    stream: str,
    after: int | None = None,
    doubted: tuple[float, float] | None = None,
) -> Offset:
    """Return the offset of the batch of these entries, which follow `start`; at most BATCH_BYTES of
    them, the rest is for the next batch.

    `after`: see Offset; then `entries` are those that no stream has committed.
    """
    taken = _taken(entries, after)
    clusters = {
        alias: Span(span.last + 1, span.last, span.number) for alias, span in start.clusters.items()
    }
    numbers: dict[str, list[int]] = {}
    for entry in taken:
        numbers.setdefault(entry.cluster, []).append(entry.number)
    for alias, of_cluster in numbers.items():
        span = clusters.get(alias, Span(0, -1, 0))
        is_next = (
            start.session == session and start.seq < entries[0].seq and span.number < of_cluster[0]
        )
        before = span.number if is_next else of_cluster[0] - 1
        clusters[alias] = Span(span.first, span.last + of_cluster[-1] - before, of_cluster[-1])
    times = [entry.at_ms for entry in taken if entry.seq > (after or 0)] or [
        entry.at_ms for entry in taken
    ]
    end = Offset(
        stream=stream,
        session=session,
        seq=taken[-1].seq,
        from_ms=min(times),
        to_ms=max(times),
        clusters=clusters,
        after=after,
        doubted=doubted,
    )
    return replace(end, waits=batch(start, end, taken).waits)


def _taken(entries: Sequence[Entry], after: int | None) -> Sequence[Entry]:
    """Return the entries of a batch: all that is passed over, and as many others as it may take."""
    size = 0
    for place, entry in enumerate(entries):
        size += entry.end - entry.begin if entry.seq > (after or 0) else 0
        if size > BATCH_BYTES and place and entries[place - 1].seq > (after or 0):
            return entries[:place]
    return entries
