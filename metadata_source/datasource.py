"""The Spark data source `kafka_metadata`: it translates between Spark and the modules that know something.

A batch read polls each cluster once; what is wrong with a cluster is an error. A stream polls on a schedule that its
offsets carry, and what is wrong with a cluster is a failed poll, a row. Kafka clients and pyarrow are imported where
rows are made, since Spark imports this module to look up names.
"""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from metadata_source.errors import OptionsError, PollError
from metadata_source.options import parse
from metadata_source.schedule import Offset, Turn, day_of, due_at, latest_end, plan, spread, ticks, turns
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from metadata_source.enrichment import Answer
    from metadata_source.options import Cluster, Options, Polling, TopicFilter
    from metadata_source.poller import Poll, Poller
    from metadata_source.pseudonyms import Pseudonyms

CLUSTERS_PER_TASK: Final = 64
_DECODERS: Final = 4
"""Of a task's clusters so many at once hold a decoded answer and its rows: tables are several times the
answer's bytes.
"""


class KafkaMetadataSource(DataSource):
    """Cluster metadata of Kafka, polled. See `metadata_source.options` for the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafka_metadata"

    def schema(self) -> StructType:
        """Return the columns of the entity that is read."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        from metadata_source.records import SCHEMAS  # noqa: PLC0415

        schema: StructType = from_arrow_schema(SCHEMAS[parse(self.options).entity])
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one poll of each cluster."""
        options = parse(self.options, "batch")
        self._check_schema(schema)
        return _BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of polls on a schedule."""
        options = parse(self.options, "stream")
        self._check_schema(schema)
        return _StreamReader(options, {key: str(value) for key, value in self.options.items()})

    def _check_schema(self, schema: StructType) -> None:
        # Spark hands a user's .schema() on unseen, and would take the columns by their place in it.
        if schema != self.schema():
            raise OptionsError(
                "schema: kafka_metadata brings its own columns: leave .schema(...) out and select from them"
            )


@dataclass(frozen=True)
class _Due:
    """The polls of one cluster in one batch: place in the batch -> turn; each is due `after_ms` after its tick."""

    cluster: Cluster
    polling: Polling
    turns: Mapping[int, Turn]
    after_ms: int


@dataclass(frozen=True)
class _Task(InputPartition):
    """The polls of some clusters in one batch, which has `polls` of them from `first` on."""

    stream: str
    first: int
    polls: int
    scheduled_ms: int
    beat_ms: int
    due: tuple[_Due, ...]
    topic_filter: TopicFilter
    entity: str
    request_timeout_ms: int
    client_hash_key: str | None
    groups_pattern: str | None
    doubted_clock: tuple[float, float] | None
    is_last: bool
    """Whether no batch follows, whose polls would have to wait for these."""


def _tasks(options: Options, planned: Offset, *, is_last: bool = False) -> list[_Task]:
    """Spread the clusters that are due evenly over as few tasks as their limit allows."""
    if planned.stream is None or planned.scheduled_ms is None:
        raise ValueError("a planned batch has a stream and a time")
    beat_ms = options.beat_ms
    of_interval = {
        interval_ms: turns(planned, interval_ms, beat_ms)
        for interval_ms in {polling.interval_ms for polling in options.polling.values()}
    }
    after_ms = spread(len(options.clusters), beat_ms)
    polling = [options.polling[cluster.alias] for cluster in options.clusters]
    due = [
        _Due(cluster, each, of_interval[each.interval_ms], after)
        for cluster, each, after in zip(options.clusters, polling, after_ms, strict=True)
        if of_interval[each.interval_ms]
    ]
    count = math.ceil(len(due) / CLUSTERS_PER_TASK)
    return [
        _Task(
            stream=planned.stream,
            first=planned.first,
            polls=planned.next - planned.first,
            scheduled_ms=planned.scheduled_ms,
            beat_ms=beat_ms,
            due=tuple(due[index::count]),
            topic_filter=options.topic_filter,
            entity=options.entity,
            request_timeout_ms=options.request_timeout_ms,
            client_hash_key=options.client_hash_key,
            groups_pattern=options.groups_pattern,
            doubted_clock=options.doubted_clock,
            is_last=is_last,
        )
        for index in range(count)
    ]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _sleep(seconds: float) -> None:
    """Sleep, but not on after the end of a driver that was killed: nobody else ends this process then."""
    driver = os.getppid()
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
        if os.getppid() != driver:
            raise RuntimeError("the Spark driver is gone")


class _BatchReader(DataSourceReader):
    """One poll, number 0 of a stream of its own. A DataFrame that is read twice polls twice under one poll id."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[_Task]:
        return _tasks(self._options, plan(Offset(), _now_ms(), self._options.beat_ms, 1, {}), is_last=True)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)  # noqa: S101 - made by `partitions`
        return _read_once(partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Polls on a schedule. On the driver it plans batches; its pickled copies, in workers, poll."""

    def __init__(self, options: Options, given: dict[str, str]) -> None:
        self._options = options
        self._given = given
        self._available_now = False
        self._planned = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first poll, whose stream has no name yet."""
        return Offset().to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Plan one more batch and then no other."""
        self._available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Wait until the next batch is due and plan it. Under AvailableNow do not wait, and plan one batch in all."""
        if self._available_now and self._planned:
            return start
        offset, newest = Offset.from_json(start), self._options.newest_stream
        if offset.stream is not None and newest is not None and offset.stream < newest:
            raise OptionsError(
                f"newestStream: there are polls of a newer stream ({newest}) than this checkpoint's ({offset.stream}), "
                "whose polls would be no history any more: remove the checkpoint of this query (of the jobs: "
                "CHECKPOINTS/poll_metadata), and a new stream begins; two jobs must not poll into one lake"
            )
        beat_ms, polls = self._options.beat_ms, self._options.polls_per_batch
        now = _now_ms()
        due = due_at(offset, now, beat_ms, polls)
        if self._available_now:
            due = min(due, now)
        else:
            # Returning "nothing new" instead would make Spark ask again 67 times a second.
            _sleep((due - now) / 1000)
        begins, self._planned = not self._planned, True
        return plan(offset, due, beat_ms, polls, self._given, begins=begins, newest=newest).to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Task]:
        """Return the tasks of a batch as its offset planned it, whatever the options are now, but for how clusters are
        reached and clients hidden, and whether the clock is believed.
        """
        if start == end:
            return []
        offset = Offset.from_json(end)
        options = _reached_as_now(parse(offset.options, "stream"), self._options)
        return _tasks(options, offset, is_last=self._available_now)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)  # noqa: S101 - made by `partitions`
        return _read_on_schedule(partition)


def _reached_as_now(planned: Options, now: Options) -> Options:
    """Return the options of a planned batch with those of now that name secrets, addresses and files of this machine,
    or say of its clock what is known now.

    A batch that was cut off is run again before any other. A name that it has of a secret may be gone by then, and the
    batch would fail at each start, whatever the configuration says. A cluster that is configured no more is polled as
    planned: without its secret that is a failed poll.
    """
    clusters = {cluster.alias: cluster for cluster in now.clusters}
    reached = tuple(clusters.get(cluster.alias, cluster) for cluster in planned.clusters)
    return replace(planned, clusters=reached, client_hash_key=now.client_hash_key, doubted_clock=now.doubted_clock)


def _read_once(task: _Task) -> Iterator[pa.RecordBatch]:
    """Poll each cluster once, yield rows as they come, and raise one PollError for all that failed.

    Spark drops the rows of a task that raises.
    """
    from metadata_source.records import BatchRecords, Planned, entity_rows  # noqa: PLC0415

    decoders = threading.Semaphore(_DECODERS)
    failed: dict[str, Poll] = {}
    pseudonyms = _pseudonyms(task)

    def poll_once(due: _Due) -> Iterator[pa.RecordBatch]:
        cluster = due.cluster
        with _poller(task, due, decoders) as poller:
            poll = poller.poll()
            if poll.error_kind is not None:
                failed[cluster.alias] = poll
                return
            if task.entity == "polls":
                ask = _questions(task, poller, poll, tuple(due.polling.enrich))
                planned = Planned(task.stream, task.first, cluster.alias, day_of(task.scheduled_ms))
                records = BatchRecords(task.topic_filter, pseudonyms, task.groups_pattern)
                rows = records.rows(planned, poll, ask)
            else:
                rows = entity_rows(task.entity, cluster.alias, poll)
            del poll  # only its rows are held, and its place among the decoders goes to another after them
            yield from rows

    yield from in_threads(task.due, poll_once, threading.Event())
    if failed:
        aliases = [due.cluster.alias for due in task.due if due.cluster.alias in failed]
        raise PollError(
            failed[aliases[0]].error_kind or "",
            "; ".join(f"cluster {alias}: {failed[alias].error}" for alias in aliases),
        )


def _read_on_schedule(task: _Task) -> Iterator[pa.RecordBatch]:
    """Poll each cluster on the batch's beat, and yield rows as they come."""
    beat = ticks(task.scheduled_ms, _now_ms(), task.beat_ms, task.polls)
    decoders = threading.Semaphore(_DECODERS)
    stopped = threading.Event()
    yield from in_threads(task.due, lambda due: _poll_on_beat(task, due, beat, decoders, stopped), stopped)


def _poll_on_beat(
    task: _Task, due: _Due, beat: list[int], decoders: threading.Semaphore, stopped: threading.Event
) -> Iterator[pa.RecordBatch]:
    """Poll one cluster whenever it is due. If the poll before still runs then, it is a failed poll and not sent."""
    from metadata_source.poller import OVERLAPPED  # noqa: PLC0415
    from metadata_source.records import BatchRecords, Planned  # noqa: PLC0415

    # The beat is wall-clock time, waiting is not: a clock that is set while the batch runs must not stretch it.
    wall, monotonic = _now_ms(), time.monotonic()
    interval_ms, beat_s, after_s = due.polling.interval_ms, task.beat_ms / 1000, due.after_ms / 1000
    records = BatchRecords(task.topic_filter, _pseudonyms(task), task.groups_pattern)
    next_batch = monotonic + (beat[-1] - wall) / 1000 + beat_s
    idle_since = -math.inf
    with _poller(task, due, decoders, interval_ms=interval_ms) as poller:
        for index, turn in due.turns.items():
            at = monotonic + (beat[index] - wall) / 1000 + after_s
            is_idle = at >= idle_since
            if is_idle and stopped.wait(max(0.0, at - time.monotonic())):
                return
            until = math.inf if task.is_last else latest_end(time.monotonic(), next_batch + after_s, beat_s)
            poll = poller.poll(turn, until=until) if is_idle else OVERLAPPED
            scheduled = task.scheduled_ms + index * task.beat_ms + due.after_ms
            # Half of the time until the next poll is due, which must not wait, or the next batch.
            now = time.monotonic()
            until = now + (min(at + interval_ms / 1000, next_batch) - now) / 2
            beats = due.polling.enrich
            kinds = poller.due(beats, [kind for kind, every in beats.items() if turn.is_due(every, interval_ms)])
            ask = _questions(task, poller, poll, kinds, until=until)
            day = day_of(task.scheduled_ms)
            planned = Planned(task.stream, turn.number, due.cluster.alias, day, interval_ms, scheduled)
            rows = records.rows(planned, poll, ask)
            del poll  # its tables would be kept until the next one
            yield from rows
            poller.let_go()
            if is_idle:
                idle_since = time.monotonic()


def _poller(task: _Task, due: _Due, decoders: threading.Semaphore, *, interval_ms: int | None = None) -> Poller:
    from metadata_source.poller import Poller  # noqa: PLC0415

    return Poller(
        due.cluster,
        task.topic_filter,
        task.request_timeout_ms,
        decoders,
        interval_ms=interval_ms,
        needs_id=interval_ms is not None,
        enrich_timeout_ms=due.polling.enrich_timeout_ms,
        doubted_clock=task.doubted_clock,
    )


def _pseudonyms(task: _Task) -> Pseudonyms | None:
    """Return what client ids and hosts are replaced by. Raises OptionsError for a key that is not on this machine."""
    from metadata_source.pseudonyms import Pseudonyms  # noqa: PLC0415

    return None if task.client_hash_key is None else Pseudonyms.of_reference(task.client_hash_key)


def _questions(
    task: _Task, poller: Poller, poll: Poll, kinds: tuple[str, ...], *, until: float = math.inf
) -> Callable[[], Sequence[Answer]]:
    """Return what asks these kinds after a poll. It holds names of topics, and at most the leaders of partitions, not
    the poll's answer.
    """
    from metadata_source.enrichment import subject  # noqa: PLC0415

    if poll.metadata is None or not kinds:
        return tuple
    about = subject(kinds, poll.metadata, task.topic_filter, task.groups_pattern)
    return lambda: poller.ask_beside(about, until)
