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
"""The `error_kind` of polls that nobody has."""
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
    `error_kind`: see LOST.
    """

    cluster: str
    n: int
    count: int
    error_kind: str
    at_ms: int

    @property
    def error(self) -> str:
        """Why nobody has them, one line."""
        return f"{self.count} {'poll' if self.count == 1 else 'polls'} {_WHY[self.error_kind]}"


@dataclass(frozen=True, slots=True)
class Batch:
    """The polls of a batch: entries of the spool in their order, each with its number in the
    stream, and those that nobody has. `waits`: see Offset.
    """

    polls: Sequence[tuple[int, Entry]]
    gaps: Sequence[Gap]
    waits: Mapping[str, str]


def batch(start: Offset, end: Offset, entries: Iterable[Entry]) -> Batch:
    """Return what the batch between two offsets holds of the entries that its spool has."""
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
        numbered, waiting = _numbered(span, found[alias], end, waiting)
        polls += [
            (poll.n, poll.entry)
            for poll in numbered
            if poll.error_kind is None and poll.entry is not None
        ]
        gaps += _gaps(alias, numbered, end)
        if waiting is not None:
            waits[alias] = waiting
    return Batch(sorted(polls, key=lambda poll: poll[1].seq), gaps, waits)


@dataclass(frozen=True, slots=True)
class _NumberedPoll:
    """A poll by its number: its entry if the spool has it, its error kind if nobody has it."""

    n: int
    entry: Entry | None
    error_kind: str | None


def _numbered(
    span: Span, entries: Mapping[int, Entry], end: Offset, waiting: str | None
) -> tuple[list[_NumberedPoll], str | None]:
    """Return the polls of a cluster in a batch, and the error kind for which it waits then."""
    numbered = []
    for n in range(span.first, span.last + 1):
        entry = entries.get(span.number - (span.last - n))
        error_kind = None
        if entry is None:
            error_kind, waiting = LOST, waiting or LOST
        elif entry.seq <= (end.after or 0) or (
            waiting is not None and entry.ok and not entry.is_key_frame
        ):
            error_kind = waiting
        elif entry.ok and _is_doubted(entry, end):
            error_kind = waiting = CLOCK
        elif entry.is_key_frame:
            waiting = None
        numbered.append(_NumberedPoll(n, entry, error_kind))
    return numbered, waiting


def _is_doubted(entry: Entry, end: Offset) -> bool:
    return end.doubted is not None and end.doubted[0] < entry.at_ms / 1000 < end.doubted[1]


def _gaps(alias: str, numbered: Sequence[_NumberedPoll], end: Offset) -> Iterator[Gap]:
    """Yield a gap for each run of numbers of one error kind.

    Its time is that of the last of them that is known, else of the poll that follows, or of the one
    before.
    """
    before: int | None = None
    runs = [
        (error_kind, list(run))
        for error_kind, run in groupby(numbered, key=lambda poll: poll.error_kind)
    ]
    for index, (error_kind, run) in enumerate(runs):
        times = [poll.entry.at_ms for poll in run if poll.entry is not None]
        if error_kind is not None:
            following = (
                [poll.entry.at_ms for poll in runs[index + 1][1] if poll.entry]
                if runs[index + 1 :]
                else []
            )
            known = (*times[-1:], *following[:1], before, end.to_ms, end.from_ms)
            at_ms = next((at for at in known if at is not None), 0)
            yield Gap(alias, run[-1].n, len(run), error_kind, at_ms)
        before = times[-1] if times else before


def continues(start: Offset, session: str | None, newest_seq: int) -> bool:
    """Whether the spool has what follows an offset: it is the same one, and no old copy of it."""
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
    fitting = _fitting(entries, after)
    clusters = {
        alias: Span(span.last + 1, span.last, span.number) for alias, span in start.clusters.items()
    }
    numbers: dict[str, list[int]] = {}
    for entry in fitting:
        numbers.setdefault(entry.cluster, []).append(entry.number)
    for alias, of_cluster in numbers.items():
        span = clusters.get(alias, Span(0, -1, 0))
        is_next = (
            start.session == session and start.seq < entries[0].seq and span.number < of_cluster[0]
        )
        before = span.number if is_next else of_cluster[0] - 1
        clusters[alias] = Span(span.first, span.last + of_cluster[-1] - before, of_cluster[-1])
    times = [entry.at_ms for entry in fitting if entry.seq > (after or 0)] or [
        entry.at_ms for entry in fitting
    ]
    end = Offset(
        stream=stream,
        session=session,
        seq=fitting[-1].seq,
        from_ms=min(times),
        to_ms=max(times),
        clusters=clusters,
        after=after,
        doubted=doubted,
    )
    return replace(end, waits=batch(start, end, fitting).waits)


def _fitting(entries: Sequence[Entry], after: int | None) -> Sequence[Entry]:
    """Return the entries of a batch: all that is passed over, and as many others as it may take."""
    size = 0
    for index, entry in enumerate(entries):
        size += entry.end - entry.begin if entry.seq > (after or 0) else 0
        if size > BATCH_BYTES and index and entries[index - 1].seq > (after or 0):
            return entries[:index]
    return entries
