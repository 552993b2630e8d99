"""The files and rows that Spark read of a lake's tables, by its own count of each scan."""

from __future__ import annotations

import re
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_PLACE = re.compile(r"Location: \w+ ?\(1 paths\)\[[^\]]*?/(\w+)/(\w+)\]")
_OF_A_LOG = "Location: DeltaLogFileIndex"


class Read(NamedTuple):
    """Files that were opened and rows that came out of them."""

    files: int
    rows: int

    def plus(self, other: Read) -> Read:
        """Both together."""
        return Read(self.files + other.files, self.rows + other.rows)


def counted_session(spark: SparkSession) -> SparkSession:
    """A session of its own whose scans tell all of their location."""
    own = spark.newSession()
    own.conf.set("spark.sql.maxMetadataStringLength", "4000")
    return own


@contextmanager
def counted(spark: SparkSession) -> Iterator[dict[str, Read]]:
    """Count what is read while this is open, by any session made by counted_session; filled in at
    the end, by `schema.table`.

    Tables of which no file was opened are not there. A file counts as often as it is scanned;
    Delta's logs do not count.
    """
    found: dict[str, Read] = {}
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001
    store = spark._jsparkSession.sharedState().statusStore()  # noqa: SLF001
    context.listenerBus().waitUntilEmpty()
    before = {execution.executionId() for execution in _each(store.executionsList())}
    yield found
    context.listenerBus().waitUntilEmpty()
    reads: dict[str, Read] = defaultdict(lambda: Read(0, 0))
    for execution in _each(store.executionsList()):
        if execution.executionId() in before:
            continue
        values = store.executionMetrics(execution.executionId())
        for node in _each(store.planGraph(execution.executionId()).allNodes()):
            if node.name().startswith("Scan parquet") and _OF_A_LOG not in node.desc():
                place = _PLACE.search(node.desc())
                if place is None:
                    raise RuntimeError(f"a scan of an unknown place: {node.desc()}")
                metrics = {
                    metric.name(): values.get(metric.accumulatorId())
                    for metric in _each(node.metrics())
                }
                read = Read(
                    _number(metrics["number of files read"]),
                    _number(metrics["number of output rows"]),
                )
                table = f"{place[1]}.{place[2]}"
                reads[table] = reads[table].plus(read)
    found.update({table: read for table, read in sorted(reads.items()) if read.files})


def _each(seq: object) -> Iterator:
    """The members of a Scala sequence."""
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _number(value: object) -> int:
    """A metric as Spark shows it (an Option of 1,234); of a scan that was not run there is none."""
    return int(value.get().replace(",", "")) if value.isDefined() else 0
