"""Headers of polls in bronze.metadata_polls that no round has taken, or that wait."""

from collections.abc import Iterable
from datetime import UTC, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.histories.poll_plan import silver_state
from jobs.rounds.appended import is_kept, is_kept_since
from jobs.rounds.commit import newest_commit
from jobs.rounds.engine import log
from jobs.rounds.history import Context
from jobs.rules.arrow import rows_of
from jobs.rules.round import SILVER
from jobs.rules.silver.enrichments import headers_of
from jobs.rules.silver.state import Row, State
from jobs.rules.takes import Take
from schemas.bronze import METADATA_POLLS
from schemas.lake import VERSION

HEADER = (
    "cluster", "poll_id", "stream", "n", "day", "outcome", "error_kind", "cluster_id",
    "scheduled_at", "received_at", "digest", "partition_count", "broker_id", "broker",
    "sent_at", "witnesses", "is_key_frame", "error", "record", "kind", "asked_at",
    "answered_at", "interval_ms", "active_controller_id",
)  # fmt: skip
"""The columns of headers that tell whether there is news, and why a poll failed."""

IS_HEADER = "record IN ('poll', 'answer')"

NEVER = datetime.min.replace(tzinfo=UTC)


class Headers:
    """The headers that this process has seen and no round has taken. `of`: by alias and poll id."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Row]] = {}
        self._looked, self._looked_at = -1, NEVER
        """The version of bronze.metadata_polls up to which headers were read, and its time; -1
        before any.
        """
        self._looked_from = 0, NEVER
        """The first version that the last look has read, and a time that is not after it."""

    def look(self, context: Context) -> None:
        """Read what commits have appended since the last look."""
        newest = newest_commit(context.spark, context.lake, METADATA_POLLS)
        if newest.version == self._looked:
            return
        is_next = 0 <= self._looked < newest.version and is_kept_since(
            METADATA_POLLS, self._looked_at
        )
        if is_next:
            rows = context.lake.read_appended(
                context.spark, METADATA_POLLS, self._looked + 1, newest.version
            )
        else:
            rows = _not_taken(context)
        all_rows = rows_of(rows.where(IS_HEADER).select(*HEADER, VERSION).toArrow())
        self._looked_from = self._looked + 1, self._looked_at
        self._looked, self._looked_at = newest.version, newest.at
        found = headers_of(all_rows)
        outages = context.run.outages
        answers = [row for row in all_rows if row["record"] == "answer"]
        for level, line in (*outages.see(found), *outages.unanswered.see(answers)):
            log.log(level, "%s", line)
        for header in found:
            if not _is_past(silver_state(context, header["cluster"]), header):
                self.of.setdefault(header["cluster"], {})[header["poll_id"]] = header

    def in_order(self, cluster: str) -> list[Row]:
        """The headers of a cluster, in the order of their polls."""
        return [header for _, header in sorted(self.of.get(cluster, {}).items())]

    def take(self, context: Context, takes: Iterable[Take]) -> None:
        """A round has taken polls; `context` is of after it. Those that wait stay."""
        for each in takes:
            for poll_id in each.polls.keys() - set(silver_state(context, each.cluster).waiting):
                self.of.get(each.cluster, {}).pop(poll_id, None)

    def forget(self, cluster: str) -> None:
        """Look at all polls of a cluster again."""
        self._looked = -1
        self.of.pop(cluster, None)

    def versions(self, context: Context, takes: Iterable[Take]) -> tuple[int, int] | None:
        """The first and the last version that appended what takes take. None where this process
        cannot say, or where files of these versions may be gone.
        """
        seen = [
            self.of.get(each.cluster, {}).get(poll_id) for each in takes for poll_id in each.polls
        ]
        found = [
            header[VERSION] for header in seen if header is not None and header[VERSION] is not None
        ]
        is_known = bool(found) and len(found) == len(seen)
        return (min(found), max(found)) if is_known and self._is_kept(context, min(found)) else None

    def _is_kept(self, context: Context, first: int) -> bool:
        """`is_kept` of bronze.metadata_polls. Delta is not asked of what the last look has read."""
        looked_from, since = self._looked_from
        is_new = first >= looked_from and is_kept_since(METADATA_POLLS, since)
        return is_new or is_kept(context.spark, context.lake, METADATA_POLLS, first)


def _not_taken(context: Context) -> DataFrame:
    """The rows of polls that no round has taken, or that wait. VERSION is null in them."""
    rows = context.lake.read(context.spark, METADATA_POLLS).withColumn(
        VERSION, F.lit(None).cast("bigint")
    )
    clusters = [cluster for history, cluster in context.states if history == SILVER]
    if not (
        taken := [
            (cluster, *number) for cluster in clusters for number in _taken_so_far(context, cluster)
        ]
    ):
        return rows
    so_far = context.spark.createDataFrame(taken, "cluster string, stream string, _taken bigint")
    return rows.join(F.broadcast(so_far), ["cluster", "stream"], "left").where(
        "_taken IS NULL OR n > _taken"
    )


def _taken_so_far(context: Context, cluster: str) -> list[tuple[str, int]]:
    """Of each stream, the last poll of a cluster that need not be read again."""
    state = silver_state(context, cluster)
    again = dict(map(number_of, reversed(state.waiting)))
    return [(stream, min(n, again.get(stream, n + 1) - 1)) for stream, n in state.seen.items()]


def _is_past(state: State, header: Row) -> bool:
    """Whether the poll was taken, or is of an older stream than one that was."""
    stream = header["stream"]
    is_past = stream < max(state.seen, default="") or header["n"] <= state.seen.get(stream, -1)
    return bool(is_past and header["poll_id"] not in state.waiting)


def number_of(poll_id: str) -> tuple[str, int]:
    """The stream of a poll, and its number there."""
    stream, _, n = poll_id.rpartition("/")
    return stream, int(n)
