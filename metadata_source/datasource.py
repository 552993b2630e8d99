"""The Spark data source `kafka_metadata`: it translates between Spark and the modules that know
something.

A batch read polls each cluster once, in tasks; what is wrong with a cluster is an error. A stream
has the polls of a recorder (`metadata_source.recorder`), in which what is wrong with a cluster is a
failed poll, a row. Kafka clients and pyarrow are imported where rows are made, since Spark imports
this module to look up names.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from metadata_source.errors import OptionsError, PollError
from metadata_source.options import parse
from metadata_source.schedule import day_of, mint_stream
from metadata_source.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from metadata_source.options import Cluster, Options, Polling, TopicFilter
    from metadata_source.poll import Poll
    from metadata_source.poller import Poller
    from metadata_source.pseudonyms import Pseudonyms

CLUSTERS_PER_TASK: Final = 64
_DECODERS: Final = 4
"""So many clusters of a task hold a decoded answer at once: tables are larger than its bytes."""


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
        """Return the reader of what a recorder polls."""
        from metadata_source.recorder.reader import StreamReader  # noqa: PLC0415

        options = parse(self.options, "stream")
        self._check_schema(schema)
        return StreamReader(options, {key: str(value) for key, value in self.options.items()})

    def _check_schema(self, schema: StructType) -> None:
        # Spark hands a user's .schema() on unseen, and would take the columns by their place in it.
        if schema != self.schema():
            raise OptionsError(
                "schema: kafka_metadata brings its own columns: leave .schema(...) out and select "
                "from them"
            )


@dataclass(frozen=True)
class _Due:
    """A cluster to poll, and what to ask beside."""

    cluster: Cluster
    polling: Polling


@dataclass(frozen=True)
class _Task(InputPartition):
    """One poll of each of some clusters, number 0 of a stream."""

    stream: str
    at_ms: int
    due: tuple[_Due, ...]
    topic_filter: TopicFilter
    entity: str
    request_timeout_ms: int
    client_hash_key: str | None
    groups_pattern: str | None


def _tasks(options: Options, at_ms: int) -> list[_Task]:
    """Spread the clusters evenly over as few tasks as their limit allows."""
    stream = mint_stream(datetime.fromtimestamp(at_ms / 1000, UTC))
    due = [_Due(cluster, options.polling[cluster.alias]) for cluster in options.clusters]
    count = math.ceil(len(due) / CLUSTERS_PER_TASK)
    return [
        _Task(
            stream=stream,
            at_ms=at_ms,
            due=tuple(due[index::count]),
            topic_filter=options.topic_filter,
            entity=options.entity,
            request_timeout_ms=options.request_timeout_ms,
            client_hash_key=options.client_hash_key,
            groups_pattern=options.groups_pattern,
        )
        for index in range(count)
    ]


class _BatchReader(DataSourceReader):
    """One poll, number 0 of a stream of its own. Read twice it polls twice, under one poll id."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> list[_Task]:
        return _tasks(self._options, time.time_ns() // 1_000_000)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Task)  # noqa: S101 - made by `partitions`
        return _read_once(partition)


def _read_once(task: _Task) -> Iterator[pa.RecordBatch]:
    """Poll each cluster once, yield rows as they come, and raise one PollError for all that failed.

    Spark drops the rows of a task that raises.
    """
    from metadata_source.enrichment import subject  # noqa: PLC0415
    from metadata_source.records import BatchRecords, Planned, entity_rows  # noqa: PLC0415

    decoders = threading.Semaphore(_DECODERS)
    failed: dict[str, Poll] = {}
    pseudonyms = _pseudonyms(task)

    def poll_once(due: _Due) -> Iterator[pa.RecordBatch]:
        cluster = due.cluster
        with _poller(task, due, decoders) as poller:
            poll = poller.poll()
            if poll.metadata is None:
                failed[cluster.alias] = poll
                return
            if task.entity != "polls":
                yield from entity_rows(task.entity, cluster.alias, poll)
                return
            about = subject(
                due.polling.enrich, poll.metadata, task.topic_filter, task.groups_pattern
            )
            planned = Planned(task.stream, 0, cluster.alias, day_of(task.at_ms))
            records = BatchRecords(task.topic_filter, pseudonyms, task.groups_pattern)
            rows = records.rows(planned, poll)
            # Only its rows are held, and its slot goes to another after them.
            del poll
            yield from rows
            poller.let_go()
            with closing(poller.asking(due.polling.enrich_timeout_ms)) as asking:
                yield from records.beside(asking.answers(about, poller.answerer))

    yield from in_threads(task.due, poll_once, threading.Event())
    if failed:
        aliases = [due.cluster.alias for due in task.due if due.cluster.alias in failed]
        raise PollError(
            failed[aliases[0]].error_kind or "",
            "; ".join(f"cluster {alias}: {failed[alias].error}" for alias in aliases),
        )


def _poller(task: _Task, due: _Due, decoders: threading.Semaphore) -> Poller:
    from metadata_source.poller import Poller  # noqa: PLC0415

    return Poller(due.cluster, task.topic_filter, task.request_timeout_ms, decoders)


def _pseudonyms(task: _Task) -> Pseudonyms | None:
    """Return what replaces client ids and hosts. Raises OptionsError for a key that is not here."""
    from metadata_source.pseudonyms import Pseudonyms  # noqa: PLC0415

    return None if task.client_hash_key is None else Pseudonyms.of_reference(task.client_hash_key)
