"""One cluster, recorded: polled on its beat and asked beside, for as long as the process lives.

Its entries go to the spool in the order in which their polls were due. An entry waits a moment for
the answers beside its poll, and is written before the next poll of the cluster in any case; answers
that come later go with the next good poll. All that is remembered (brokers, the last answer, which
answer each kind got) is this object's.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from metadata_source.answer_lock import answer_lock
from metadata_source.enrichment import subject
from metadata_source.errors import stumbled
from metadata_source.outcomes import failed
from metadata_source.poll import OVERLAPPED, Poll
from metadata_source.poller import Poller
from metadata_source.recorder.beat import Beat, KeyFrame, Questions, is_key_due, wall_ms
from metadata_source.recorder.news import News, Seen, news, seen
from metadata_source.records import BatchRecords, Planned, digests_of
from metadata_source.schedule import day_of
from metadata_source.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from metadata_source.enrichment import Answer, Subject
    from metadata_source.options import Cluster, Options, Polling
    from metadata_source.pseudonyms import Pseudonyms
    from metadata_source.transport import Address

_LOG: Final = logging.getLogger(__name__)
_OF_CHANGES: Final = ("reassignments", "configs")
"""The kinds that tell causes of what a poll shows: they are asked at once if a poll is news."""


class Keeps(Protocol):
    """What keeps entries: the spool. Of any thread."""

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


@dataclass(frozen=True, slots=True)
class Shared:
    """The options, and the objects that all clusters of one process use."""

    options: Options
    keeps: Keeps
    is_over: threading.Event
    """Set when no more polls are to be made."""
    decoders: threading.Semaphore
    pseudonyms: Pseudonyms | None = None
    is_once: bool = False
    """One poll of each cluster, with all that is asked beside it."""


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
class _Unkept:
    """Polls for which the spool had no room: how many, and when the first and the last were due."""

    count: int
    from_ms: int
    to_ms: int

    @classmethod
    def and_(cls, before: _Unkept | None, at_ms: int) -> _Unkept:
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


class ClusterRecorder:
    """Records one cluster, in a thread of its own (`run`), and another one while anything is asked
    beside.
    """

    def __init__(
        self, cluster: Cluster, polling: Polling, shared: Shared, *, begin_s: float
    ) -> None:
        """Ask nobody yet. `begin_s`: when the first poll is due, on the monotonic clock."""
        options = shared.options
        self.alias = cluster.alias
        self._polling, self._shared = polling, shared
        self._beat = Beat(begin_s, polling.interval_ms)
        self._questions = Questions(polling.enrich)
        self._poller = Poller(
            cluster,
            options.topic_filter,
            options.request_timeout_ms,
            shared.decoders,
            interval_ms=polling.interval_ms,
            needs_id=True,
        )
        self._asking = self._poller.asking(polling.enrich_timeout_ms)
        self._records = BatchRecords(
            options.topic_filter, shared.pseudonyms, options.groups_pattern
        )
        self._changed = threading.Condition()
        self._entry: _Entry | None = None
        self._late: list[Answer] = []
        """Answers whose poll was written before they came."""
        self._owed: tuple[Subject, Address] | None = None
        self._asker: threading.Thread | None = None
        self._is_over = False
        self._seen: Seen | None = None
        self._key: KeyFrame | None = None
        self._unkept: _Unkept | None = None

    def expect(self, cluster_id: str | None, doubted_clock: tuple[float, float] | None) -> None:
        """From the next poll on: see `Poller.expect`."""
        self._poller.expect(cluster_id, doubted_clock)

    def finish(self) -> None:
        """Write what waits for answers, and nothing after it."""
        with self._changed:
            self._write()
            self._is_over = True
            if self._late:
                kinds = ", ".join(sorted({answer.kind for answer in self._late}))
                _LOG.info(
                    "cluster %s: answers after the last poll are not recorded: %s",
                    self.alias,
                    kinds,
                )

    def close(self) -> None:
        """Close all connections, once nothing is polled or asked any more."""
        self._poller.close()
        self._asking.close()

    def run(self) -> None:
        """Poll when it is due, until the end. In a thread of its own."""
        tick = 0
        while not self._shared.is_over.wait(max(0.0, self._beat.at(tick) - time.monotonic())):
            try:
                tick = self._tick(tick)
            except Exception:  # noqa: BLE001 - the next tick is another try
                _LOG.exception("cluster %s: a poll could not be noted", self.alias)
                tick = max(tick + 1, self._beat.missed(tick, time.monotonic()).stop)
            if self._shared.is_once:
                return

    def join(self, until_s: float) -> bool:
        """Wait for the questions that run, so long at most; return whether they have ended."""
        thread = self._asker
        if thread is not None:
            thread.join(max(0.0, until_s - time.monotonic()))
        return thread is None or not thread.is_alive()

    def _tick(self, tick: int) -> int:
        """Poll, and say of the ticks that passed meanwhile that they were missed. Return the next
        tick.
        """
        try:
            self._record(tick)
        except Exception as error:  # noqa: BLE001 - a bug in what one cluster brings must not end its polls
            _LOG.exception("cluster %s: the poll failed", self.alias)
            self._record_failed(tick, error)
        if self._shared.is_once:
            return tick + 1
        missed = self._beat.missed(tick, time.monotonic())
        with self._changed:
            for each in missed:
                self._made(each, OVERLAPPED)
                self._write()
        return max(tick + 1, missed.stop)

    def _record_failed(self, tick: int, error: Exception) -> None:
        with self._changed:
            self._entry = None
            self._made(tick, Poll(error_kind="protocol", error=stumbled(error)))
            self._write()

    def _record(self, tick: int) -> None:
        poll = self._poller.poll()
        with self._changed:
            entry = self._made(tick, poll)
            about = self._to_ask(tick, entry, poll)
            del poll  # its tables would be held while the entry waits
            self._poller.let_go()
            if about is not None:
                entry.waits = set(about.kinds)
                self._ask(about, self._poller.answerer)
                now = time.monotonic()
                wait_s = None if self._shared.is_once else self._beat.answers_until(tick, now) - now
                self._changed.wait_for(lambda: not entry.waits, wait_s)
            self._write()

    def _made(self, tick: int, poll: Poll) -> _Entry:
        """Make the rows of a poll: the entry that is written next."""
        due_s = self._beat.at(tick)
        at_ms = wall_ms(due_s, time.monotonic(), time.time_ns() // 1_000_000)
        is_key = is_key_due(self._key, due_s, at_ms)
        with answer_lock(poll.response_bytes):
            rows = list(self._records.rows(self._planned(at_ms), poll, is_key_frame=is_key))
        self._entry = _Entry(due_s, at_ms, replace(poll, metadata=None, image=None), rows)
        return self._entry

    def _planned(self, at_ms: int) -> Planned:
        """A poll's place, without stream and number: the reader gives it these."""
        return Planned("", 0, self.alias, day_of(at_ms), self._polling.interval_ms, at_ms)

    # --- beside the poll ---

    def _to_ask(self, tick: int, entry: _Entry, poll: Poll) -> Subject | None:
        """Return what is to be asked after a poll; None for nothing."""
        if poll.metadata is None:
            return None
        after_ms = tick * self._polling.interval_ms
        kinds = () if self._owed is None else self._owed[0].kinds
        kinds += self._questions.due(after_ms)
        if news(self._seen, self._now(entry, [])) is News.NEWS:
            kinds += self._questions.among(_OF_CHANGES)
        if not kinds:
            return None
        self._questions.asked(kinds, after_ms)
        options = self._shared.options
        return subject(kinds, poll.metadata, options.topic_filter, options.groups_pattern)

    def _ask(self, about: Subject, address: Address) -> None:
        """Have all kinds asked that are owed: at once, or when those that are being asked are
        answered.
        """
        self._owed = about, address
        if self._asker is None:
            asker = threading.Thread(
                target=self._ask_all, name=f"{self.alias}: questions", daemon=True
            )
            try:
                asker.start()
            except RuntimeError as error:  # no more threads: the kinds stay owed to the next poll
                _LOG.error("cluster %s: nothing is asked beside the poll: %s", self.alias, error)
                if self._entry is not None:
                    self._entry.waits.clear()
            else:
                self._asker = asker

    def _ask_all(self) -> None:
        """Ask what is owed, until nothing is. In a thread of its own: one that hangs is in the way
        of no poll.
        """
        while True:
            with self._changed:
                if self._owed is None:
                    self._asker = None
                    return
                (about, address), self._owed = self._owed, None
            try:
                for answer in self._asking.answers(about, address):
                    self._answered(answer)
            except Exception:  # noqa: BLE001 - nor its questions
                _LOG.exception("cluster %s: the questions beside the poll failed", self.alias)
                with self._changed:
                    if self._entry is not None:
                        self._entry.waits.clear()
                    self._changed.notify_all()

    def _answered(self, answer: Answer) -> None:
        with self._changed:
            entry = self._entry
            if entry is None or answer.kind not in entry.waits:
                self._late.append(answer)
                return
            entry.waits.discard(answer.kind)
            entry.answers.append(answer)
            self._changed.notify_all()

    # --- to the spool ---

    def _write(self) -> None:
        """Write the entry that waits, if one does."""
        entry, self._entry = self._entry, None
        if entry is None or self._is_over:
            return
        beside: list[pa.RecordBatch] = []
        answers: list[Answer] = []
        if entry.poll.error_kind is None:
            answers = sorted(self._late + entry.answers, key=_answered_at)
            self._late = []
            beside = [batch for answer in answers for batch in self._beside(answer)]
        now = self._now(entry, beside)
        found = news(self._seen, now)
        if found is News.NEWS:
            now = replace(now, news_at_s=now.at_s)
        is_key = bool(self._records.header.get("is_key_frame"))
        if self._room_again() and self._append(
            entry.at_ms, entry.batches + beside, found, is_key, entry.poll
        ):
            self._records.kept()
            self._seen = now
            if is_key:
                self._key = KeyFrame(day_of(entry.at_ms), entry.due_s)
        else:
            if self._unkept is None:
                _LOG.error("cluster %s: the spool has no room: polls are not recorded", self.alias)
            self._unkept, self._key = _Unkept.and_(self._unkept, entry.at_ms), None
            # The newest of each kind goes with the next poll; those of a failed poll wait still.
            self._late = [*{answer.kind: answer for answer in [*answers, *self._late]}.values()]

    def _beside(self, answer: Answer) -> list[pa.RecordBatch]:
        """Make the rows of an answer; of one that this program stumbles over, those of a failed
        one.
        """
        try:
            with answer_lock():
                return list(self._records.beside([answer]))
        except Exception as error:  # noqa: BLE001 - the poll and the other answers are kept
            _LOG.exception(
                "cluster %s: the answer beside the poll (%s) failed", self.alias, answer.kind
            )
            outcome = failed(stumbled(error))
            return list(self._records.beside([replace(answer, outcome=outcome, rows=None)]))

    def _now(self, entry: _Entry, beside: Sequence[pa.RecordBatch]) -> Seen:
        digest = self._records.header.get("digest")
        return seen(self._seen, entry.due_s, entry.poll, digest, digests_of(beside))

    def _room_again(self) -> bool:
        """Write that polls were not kept, if there were any; return whether there is room."""
        lost = self._unkept
        if lost is None:
            return True
        options = self._shared.options
        rows = BatchRecords(options.topic_filter, None, options.groups_pattern).rows(
            self._planned(lost.to_ms), lost.poll
        )
        if not self._append(lost.to_ms, list(rows), News.NEWS, is_key=False, poll=lost.poll):
            return False
        self._unkept = None
        return True

    def _append(
        self, at_ms: int, batches: list[pa.RecordBatch], found: News, is_key: bool, poll: Poll
    ) -> bool:
        ok = poll.error_kind is None
        try:
            return self._shared.keeps.append(
                self.alias, at_ms, batches, found, is_key_frame=is_key, ok=ok
            )
        except Exception:  # noqa: BLE001 - a folder that is gone: polls are made, and a gap says so once it is back
            _LOG.exception("cluster %s: the poll cannot be kept", self.alias)
            return False


def _answered_at(answer: Answer) -> datetime:
    """Return a time to order answers by; those that nobody gave come last."""
    return answer.answered_at or answer.asked_at or datetime.max.replace(tzinfo=UTC)
