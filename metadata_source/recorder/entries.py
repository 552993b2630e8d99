"""The entries of one cluster: each made of a poll and the answers beside it, and written to the
spool in the order in which the polls were due.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from metadata_source.answer_lock import answer_lock
from metadata_source.errors import stumbled
from metadata_source.outcomes import failed, is_answered
from metadata_source.poll import Poll
from metadata_source.recorder.beat import KeyFrame, is_key_due, wall_ms
from metadata_source.recorder.news import News, Seen, news, seen
from metadata_source.records import BatchRecords, Planned, digests_of
from metadata_source.schedule import day_of
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from metadata_source.enrichment import Answer
    from metadata_source.options import Options
    from metadata_source.pseudonyms import Pseudonyms

_LOG: Final = logging.getLogger(__name__)


class Sink(Protocol):
    """Where entries go: the spool. Of any thread."""

    def append(  # noqa: D102 - as `Spool` has it
        self,
        cluster: str,
        at_ms: int,
        batches: Sequence[pa.RecordBatch],
        news: News,
        *,
        is_key_frame: bool,
        ok: bool,
    ) -> bool: ...


@dataclass(slots=True)
class _Entry:
    """The rows of a poll that were not written yet."""

    due_s: float
    at_ms: int
    poll: Poll
    """Without its answer."""
    batches: list[pa.RecordBatch]
    waits: set[str] = field(default_factory=set)
    """The kinds whose answers it waits for."""
    answers: list[Answer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _SpoolFull:
    """Polls for which the spool had no room: how many, and when the first and the last were due."""

    count: int
    from_ms: int
    to_ms: int

    @classmethod
    def after(cls, before: _SpoolFull | None, at_ms: int) -> _SpoolFull:
        """Return it with one poll more."""
        return (
            cls(1, at_ms, at_ms) if before is None else cls(before.count + 1, before.from_ms, at_ms)
        )

    @property
    def poll(self) -> Poll:
        """A failed poll that says so."""
        begin, end = (
            datetime.fromtimestamp(each / 1000, UTC) for each in (self.from_ms, self.to_ms)
        )
        said = (
            f"{counted(self.count, 'poll')} from {begin:%Y-%m-%dT%H:%M:%SZ} to "
            f"{end:%Y-%m-%dT%H:%M:%SZ} found no room in the spool: Spark has not read it, or its "
            "disk is full"
        )
        return Poll(error_kind="spool_full", error=said)


class Entries:
    """Makes and writes the entries of one cluster, one after the other. Of any thread.

    `changed` is notified when the last answer that an entry waits for has come. Who holds it keeps
    answers from being added.
    """

    def __init__(
        self,
        alias: str,
        interval_ms: int,
        options: Options,
        spool: Sink,
        pseudonyms: Pseudonyms | None,
    ) -> None:
        self.changed = threading.Condition()
        self._alias, self._interval_ms, self._spool = alias, interval_ms, spool
        self._options = options
        self._records = BatchRecords(options.topic_filter, pseudonyms, options.groups_pattern)
        self._entry: _Entry | None = None
        self._late: list[Answer] = []
        """Answers whose poll was written before they came."""
        self._is_over = False
        self._seen: Seen | None = None
        self._key: KeyFrame | None = None
        self._full: _SpoolFull | None = None

    def make(self, due_s: float, poll: Poll) -> None:
        """Make the rows of a poll: the entry that is written next."""
        with self.changed:
            self._entry = None
            at_ms = wall_ms(due_s, time.monotonic(), time.time_ns() // 1_000_000)
            is_key = is_key_due(self._key, due_s, at_ms)
            with answer_lock(poll.response_bytes):
                rows = list(self._records.rows(self._planned(at_ms), poll, is_key_frame=is_key))
            self._entry = _Entry(due_s, at_ms, replace(poll, metadata=None, image=None), rows)

    @property
    def has_news(self) -> bool:
        """Whether the entry that was made is news without any answer beside it."""
        entry = self._entry
        return entry is not None and self._news(self._now(entry, [])) is News.NEWS

    def await_kinds(self, kinds: Iterable[str]) -> None:
        """Have the entry wait for the answers of these kinds: no longer for any other."""
        with self.changed:
            if self._entry is not None:
                self._entry.waits = set(kinds)
                self.changed.notify_all()

    def wait(self, seconds: float | None) -> None:
        """Wait for all answers that the entry waits for, so long at most."""
        with self.changed:
            entry = self._entry
            self.changed.wait_for(lambda: entry is None or not entry.waits, seconds)

    def add(self, answer: Answer) -> None:
        """Take an answer: with the entry that waits for it, else with the next good poll."""
        with self.changed:
            entry = self._entry
            if entry is None or answer.enrichment not in entry.waits:
                self._late.append(answer)
                return
            entry.waits.discard(answer.enrichment)
            entry.answers.append(answer)
            self.changed.notify_all()

    def finish(self) -> None:
        """Write what waits for answers, and nothing after it."""
        with self.changed:
            self.write()
            self._is_over = True
            if self._late:
                kinds = ", ".join(sorted({answer.enrichment for answer in self._late}))
                _LOG.info(
                    "cluster %s: answers after the last poll are not recorded: %s",
                    self._alias,
                    kinds,
                )

    def write(self) -> None:
        """Write the entry that waits, if one does."""
        with self.changed:
            entry, self._entry = self._entry, None
            if entry is None or self._is_over:
                return
            beside: list[pa.RecordBatch] = []
            answers: list[Answer] = []
            if entry.poll.error_kind is None:
                answers = _one_of_each([*self._late, *entry.answers])
                self._late = []
                beside = [batch for answer in answers for batch in self._rows_of(answer)]
            now = self._now(entry, beside)
            found = self._news(now)
            if found is News.NEWS:
                now = replace(now, news_at_s=now.at_s)
            is_key = bool(self._records.header.get("is_key_frame"))
            if self._write_full() and self._append(
                entry.at_ms, entry.batches + beside, found, is_key, entry.poll
            ):
                self._records.kept()
                self._seen = now
                if is_key:
                    self._key = KeyFrame(day_of(entry.at_ms), entry.due_s)
                return
            if self._full is None:
                _LOG.error("cluster %s: the spool has no room: polls are not recorded", self._alias)
            self._full, self._key = _SpoolFull.after(self._full, entry.at_ms), None
            # They go with the next poll; those of a failed poll wait still.
            self._late = _one_of_each([*answers, *self._late])

    def _planned(self, at_ms: int) -> Planned:
        """Return which poll it is, without stream and number: the reader gives it these."""
        return Planned("", 0, self._alias, day_of(at_ms), self._interval_ms, at_ms)

    def _rows_of(self, answer: Answer) -> list[pa.RecordBatch]:
        """Make the rows of an answer; those of a failed one where the code stumbles over it."""
        try:
            with answer_lock():
                return list(self._records.beside([answer]))
        except Exception as error:  # noqa: BLE001 - the poll and the other answers are kept
            _LOG.exception(
                "cluster %s: the answer beside the poll (%s) failed", self._alias, answer.enrichment
            )
            outcome = failed(stumbled(error))
            return list(self._records.beside([replace(answer, outcome=outcome, rows=None)]))

    def _news(self, now: Seen) -> News:
        return news(self._seen, now, self._interval_ms / 1000)

    def _now(self, entry: _Entry, beside: Sequence[pa.RecordBatch]) -> Seen:
        digest = self._records.header.get("digest")
        return seen(self._seen, entry.due_s, entry.poll, digest, digests_of(beside))

    def _write_full(self) -> bool:
        """Write that earlier polls found no room, if any did; return whether there is room now."""
        full = self._full
        if full is None:
            return True
        rows = BatchRecords(self._options.topic_filter, None, self._options.groups_pattern).rows(
            self._planned(full.to_ms), full.poll
        )
        if not self._append(full.to_ms, list(rows), News.NEWS, is_key=False, poll=full.poll):
            return False
        self._full = None
        return True

    def _append(
        self, at_ms: int, batches: list[pa.RecordBatch], found: News, is_key: bool, poll: Poll
    ) -> bool:
        ok = poll.error_kind is None
        try:
            return self._spool.append(
                self._alias, at_ms, batches, found, is_key_frame=is_key, ok=ok
            )
        except Exception:  # noqa: BLE001 - a folder that is gone: polls are made, and a gap says so once it is back
            _LOG.exception("cluster %s: the poll cannot be kept", self._alias)
            return False


def _one_of_each(answers: Iterable[Answer]) -> list[Answer]:
    """Return those that one entry can hold, in order: of each kind the newest good one, else the
    newest. Rows of two could not be told apart.
    """
    in_order = sorted(answers, key=_answered_at)
    found = {each.enrichment: each for each in in_order}
    found |= {each.enrichment: each for each in in_order if is_answered(each.outcome)}
    return sorted(found.values(), key=_answered_at)


def _answered_at(answer: Answer) -> datetime:
    """Return a time to order answers by; those that nobody gave come last."""
    return answer.answered_at or answer.asked_at or datetime.max.replace(tzinfo=UTC)
