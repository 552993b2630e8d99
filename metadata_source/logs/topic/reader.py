"""From spans of a topic's offsets to its records, each of which is read or lost once.

The end of a span is an offset, not a record: there may be none, where records were compacted away
or are markers of transactions.
"""

from __future__ import annotations

import time
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metadata_source.broker_errors import error_name
from metadata_source.errors import LogError, PollError, Retry
from metadata_source.kafka_constants import TOPIC_AUTHORIZATION_FAILED
from metadata_source.logs.topic.batches import Unreadable, read_answers
from metadata_source.logs.topic.positions import is_remade
from metadata_source.threads import side_by_side
from metadata_source.waiting import read_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from metadata_source.addresses import Address
    from metadata_source.logs.topic.batches import Answered
    from metadata_source.logs.topic.positions import LogExtent, Span
    from metadata_source.logs.topic.watcher import Led, LogWatcher
    from metadata_source.protocol.vectors import Flags, Positions
    from metadata_source.questions import FetchedPartition

BATCH_ROWS: Final = 4_096
BATCH_BYTES: Final = 16 * 2**20

_WAIT_S: Final = 0.2
_LEAST_S: Final = 1.0
"""The least time that a leader gets for its answer."""
_OUT_OF_RANGE: Final = 1
_CORRUPT_MESSAGE: Final = 2
_TRIES: Final = 3
"""How many times a batch is fetched before it counts as one that nobody can read."""
_TIMEOUTS: Final = 10
_LEAST_PACE: Final = 100
"""Offsets a second, beside ten times `requestTimeout`: slower clusters hold up their batch."""


class Records(NamedTuple):
    """Some records of a log, those of each partition in their order, by columns.

    `producers`: of those in transactions; -1 of others. `times`: ms since 1970. `leader_epochs`:
    -1 where there is none.
    """

    partitions: Positions
    offsets: Positions
    times: Positions
    keys: pa.BinaryArray
    values: pa.BinaryArray
    producers: Positions
    is_control: Flags
    leader_epochs: Positions


class Aggregates(Protocol):
    """What many records of a log come to, in place of a row each."""

    def take(self, records: Records) -> Flags:
        """Take records; return which of them count here alone."""

    def end(self, partitions: Collection[int]) -> None:
        """End what is open of partitions: their spans are over, or what follows was lost."""

    def rows(self) -> pa.Table:
        """Return the rows since the last call."""


class Went(NamedTuple):
    """The fate of the offsets of a span from `offset` up to `next_offset`; of those that were read,
    how many count in aggregates, how many are records, and how many have neither.
    """

    span: Span
    record: str
    offset: int
    next_offset: int
    aggregated: int | None = None
    records: int | None = None
    holes: int | None = None
    error: str | None = None


class _At:
    """How far the reading of a span has come. `since` is where what is counted began."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.position = self.since = span.start
        self.aggregated = self.records = 0

    @property
    def is_at_end(self) -> bool:
        """Whether the span was gone through."""
        return self.position >= self.span.end

    def pass_over(self, to: int, error: str | None = None) -> Iterator[Went]:
        """Count up to the position, and continue at `to`, which is the position unless offsets were
        lost; by what `error`, if they are in the log and cannot be read.
        """
        position, done = self.position, self.aggregated + self.records
        if position > self.since:
            holes = position - self.since - done
            yield Went(
                self.span, "read", self.since, position, self.aggregated, self.records, holes
            )
        if to > position:
            yield Went(self.span, "lost", position, to, error=error)
        self.position = self.since = to
        self.aggregated = self.records = 0


class Reading:
    """Reads spans of a log side by side, each until its end."""

    def __init__(
        self, watcher: LogWatcher, spans: Sequence[Span], topic: str, aggregates: Aggregates
    ) -> None:
        self._watcher = watcher
        self._topic = topic
        self._ahead = {span.partition: _At(span) for span in spans}
        self._leaders: Mapping[Address, list[Led]] = {}
        self._aggregates = aggregates
        self._records: list[pa.RecordBatch] = []
        self._count = self._size = 0
        self._ended: list[Went] = []
        self._is_out_of_range = False
        self._problem = ""
        self._tries: dict[int, tuple[int, int]] = {}
        """By partition, where a batch could not be read last, and how many times it came so."""
        self._cut_off: set[int] = set()
        """The partitions of which bytes came last, and no batch that ends in them."""

    def steps(
        self, timeout_s: float
    ) -> Iterator[tuple[list[pa.RecordBatch], pa.Table, list[Went]]]:
        """Yield records that are in no aggregate, some at a time, rows of aggregates, and what
        ended with them. Raises LogError, after `timeout_s` without progress.
        """
        deadline = time.monotonic() + timeout_s
        offsets = sum(at.span.end - at.position for at in self._ahead.values())
        end = time.monotonic() + _TIMEOUTS * timeout_s + offsets / _LEAST_PACE
        while self._ahead:
            has_moved = False
            # Of this round alone: a leader that hangs in the next one has cut nothing off.
            self._cut_off.clear()
            for answers in self._answers(deadline):
                has_moved = self._take(answers, read_by(deadline)) or has_moved
                if self._count >= BATCH_ROWS or self._size >= BATCH_BYTES:
                    yield self._flush()
            if has_moved:
                # Counted from here: whoever takes the rows may have taken long.
                deadline = time.monotonic() + timeout_s
            if self._ahead and time.monotonic() > end:
                raise self._too_late(f"it takes longer than a second for {_LEAST_PACE} offsets")
            late = time.monotonic() > deadline
            if (late or self._is_out_of_range) and self._has_lost_next(late=late):
                deadline = time.monotonic() + timeout_s
        yield self._flush()

    def _flush(self) -> tuple[list[pa.RecordBatch], pa.Table, list[Went]]:
        flushed = self._records, self._aggregates.rows(), self._ended
        self._records, self._ended, self._count, self._size = [], [], 0, 0
        return flushed

    def _answers(self, deadline: float) -> Iterator[list[FetchedPartition]]:
        """Yield what each leader has next of its partitions, all asked side by side; nothing if
        that is to be tried again. Raises LogError.
        """
        if not self._leaders:
            try:
                self._leaders = self._watcher.leaders()
            except LogError as error:
                if error.retry is not Retry.AGAIN:
                    raise
        offsets = {
            address: {
                each: self._ahead[each.partition].position
                for each in led
                if each.partition in self._ahead
            }
            for address, led in self._leaders.items()
        }
        asked = [(address, of_leader) for address, of_leader in offsets.items() if of_leader]
        until = time.monotonic() + max(_LEAST_S, (deadline - time.monotonic()) / 2)

        def ask(leader: tuple[Address, Mapping[Led, int]]) -> list[FetchedPartition] | PollError:
            try:
                return self._watcher.fetch(*leader, until)
            except PollError as error:
                return error

        for answer in side_by_side(asked, ask, "leaders"):
            if not isinstance(answer, PollError):
                yield answer
            elif answer.retry is Retry.AGAIN:
                self._leaders = {}
            else:
                raise LogError(answer.kind, answer.problem)
        if not asked or not self._leaders:
            self._doubt()

    def _doubt(self) -> None:
        """Look for the leaders again, after a while."""
        self._leaders = {}
        time.sleep(_WAIT_S)

    def _take(self, answers: list[FetchedPartition], until: float) -> bool:
        """Go past what a leader has answered, as far as it is read by `until`. Return whether a
        partition has moved on. Raises LogError.
        """
        good = [each for each in answers if not self._is_refused(each)]
        data = {each["partition_index"]: each["records"] for each in good if each["records"]}
        before = {
            each["partition_index"]: self._ahead[each["partition_index"]].position for each in good
        }
        skipping = {
            each
            for each, position in before.items()
            if self._tries.get(each) == (position, _TRIES - 1)
        }
        # The leader itself cannot read its log: it stumbles over a batch's length.
        corrupt = (
            Unreadable(
                each["partition_index"],
                None,
                f"error {_CORRUPT_MESSAGE} ({error_name(_CORRUPT_MESSAGE)})",
            )
            for each in good
            if each["error_code"]
        )
        for found in chain(corrupt, read_answers(data, skipping)):
            if not isinstance(found, Unreadable):
                self._pass(found)
            elif found.is_old or found.partition in skipping:
                self._skip(found)
            else:
                self._try_again(found.partition)
            if time.monotonic() > until:
                break  # the rest comes again
        if not data:
            # Records that were compacted away, up to where the log ends: else one partition at
            # least has some.
            for each in good:
                if not each["error_code"]:
                    at = self._ahead[each["partition_index"]]
                    at.position = max(at.position, min(at.span.end, each["high_watermark"]))
        has_moved = any(
            partition not in self._ahead or self._ahead[partition].position > position
            for partition, position in before.items()
        )
        self._cut_off |= {
            each
            for each in data
            if each in self._ahead and self._ahead[each].position == before[each]
        }
        self._end([each for each in before if each in self._ahead and self._ahead[each].is_at_end])
        for partition in data.keys() & self._ahead.keys():
            # One whose batch is too large beside the others has its turn as the first one.
            self._ahead[partition] = self._ahead.pop(partition)
        return has_moved

    def _try_again(self, partition: int) -> None:
        """Note that a batch was bad: perhaps by its way here, and perhaps another broker has a
        better log by now.
        """
        known, tries = self._tries.get(partition, (-1, 0))
        position = self._ahead[partition].position
        self._tries[partition] = position, tries + 1 if known == position else 1
        self._leaders = {}

    def _skip(self, bad: Unreadable) -> None:
        """Lose the offsets of a batch; those of all the span if nobody knows where it ends."""
        at = self._ahead.get(bad.partition)
        if at is not None:
            after = at.span.end if bad.after is None or bad.after <= at.position else bad.after
            self._lose(bad.partition, min(after, at.span.end), bad.problem)

    def _is_refused(self, answer: FetchedPartition) -> bool:
        """Whether a leader has not answered for a partition, now. Raises LogError."""
        code = answer["error_code"]
        if code == TOPIC_AUTHORIZATION_FAILED:
            raise LogError("not_allowed", f"READ on topic {self._topic} is missing")
        if code == _OUT_OF_RANGE:
            self._is_out_of_range = True
        elif code == _CORRUPT_MESSAGE:
            return False
        elif code:
            self._leaders, self._problem = {}, f" (error {code}, {error_name(code)})"
        return bool(code)

    def _pass(self, found: Answered) -> None:
        """Go past records."""
        spans = {
            partition: self._ahead[partition]
            for partition in found.after
            if partition in self._ahead
        }
        if not spans:
            return
        numbers = np.array(sorted(spans), dtype=np.int64)
        at = np.searchsorted(numbers, found.partitions).clip(max=len(numbers) - 1)
        offsets = found.records["offset"].to_numpy()
        firsts = np.array([spans[number].position for number in numbers.tolist()])
        ends = np.array([spans[number].span.end for number in numbers.tolist()])
        is_wanted = (
            (numbers[at] == found.partitions) & (offsets >= firsts[at]) & (offsets < ends[at])
        )
        records, partitions, producers = found.records, found.partitions, found.producers
        if not is_wanted.all():
            records = records.filter(pa.array(is_wanted))
            at, partitions, producers = at[is_wanted], partitions[is_wanted], producers[is_wanted]
        is_control = records["is_control"].to_numpy(zero_copy_only=False)
        is_aggregated = self._aggregates.take(
            Records(
                partitions,
                records["offset"].to_numpy(),
                records["timestamp_ms"].to_numpy(),
                records["key"],
                records["value"],
                producers,
                is_control,
                records["leader_epoch"].to_numpy().astype(np.int64),
            )
        )
        is_record = ~is_aggregated & ~is_control
        of_each = (
            np.bincount(at[which], minlength=len(numbers)).tolist()
            for which in (is_aggregated, is_record)
        )
        for number, aggregated, rows in zip(numbers.tolist(), *of_each, strict=True):
            one = spans[number]
            one.aggregated += aggregated
            one.records += rows
            one.position = max(one.position, min(one.span.end, found.after[number]))
        if is_record.any():
            others = records.filter(pa.array(is_record))
            self._records.append(
                others.append_column("log_partition", pa.array(partitions[is_record]))
            )
            self._count += len(others)
            self._size += pc.sum(pc.binary_length(others["value"])).as_py() or 0

    def _end(self, partitions: Collection[int]) -> None:
        if partitions:
            self._aggregates.end(partitions)
        for partition in partitions:
            at = self._ahead.pop(partition)
            self._ended += at.pass_over(at.position)

    def _lose(self, partition: int, to: int, error: str | None = None) -> None:
        at = self._ahead[partition]
        self._aggregates.end([partition])
        self._ended += at.pass_over(to, error)
        if to >= at.span.end:
            del self._ahead[partition]

    def _has_lost_next(self, *, late: bool) -> bool:
        """Find out why nothing comes: the log may have lost what is next; return whether it has.
        Raises LogError where it is `late` and not that.
        """
        self._is_out_of_range = False
        resumed: dict[int, int] = {}
        try:
            log = self._watcher.ask_extent()
            for partition, at in self._ahead.items():
                to = self._resumption(log, at, late=late)
                if to is not None:
                    resumed[partition] = to
        except LogError:
            if late:
                raise
        for partition, to in resumed.items():
            self._lose(partition, to)
        if not resumed and late and self._cut_off:
            for partition in self._cut_off:
                self._skip(
                    Unreadable(partition, None, "length: more bytes than the leader answers with")
                )
            return True
        if not resumed and late:
            position = next(iter(self._ahead.values())).position
            raise self._too_late(f"nothing came from offset {position} on{self._problem}")
        if not resumed:
            # Out of range, and yet there: a leader that does not have it yet.
            self._doubt()
        return bool(resumed)

    def _too_late(self, problem: str) -> LogError:
        first, others = next(iter(self._ahead)), len(self._ahead) - 1
        where = f"partition {first} of {self._topic}" + (f" and {others} more" if others else "")
        return LogError("timeout", f"{where}: {problem}")

    def _resumption(self, log: LogExtent, at: _At, *, late: bool) -> int | None:
        """Return where to continue if the log lost what is next; None if not, or not known."""
        begin, end = log.begins.get(at.span.partition), log.ends.get(at.span.partition)
        if is_remade(at.span.topic_id, log.topic_id) or (late and not log.partitions):
            return at.span.end
        if begin is not None and begin > at.position:
            return min(begin, at.span.end)
        # A new leader does not say where its log ends before it knows (KIP-207): then what it lacks
        # is lost.
        return at.span.end if late and end is not None and end < at.span.end else None
