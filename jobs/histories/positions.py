"""Rows of a log in bronze that no round has taken, and the position of each in the order of its
partition.

Offsets go back when a log is truncated. So a row's position is the era that it was read in (0, or
when the truncation before it was found, microseconds) and its offset; what was read twice has one
position.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.rounds.history import Context
from jobs.rounds.plan import State, state_of
from jobs.rules.groups.fold_rebalances import Positions
from jobs.rules.memory import dumps

PARTITION = ("cluster", "log_partition")

LOG = ""
"""In place of an alias: the row of internal.states that says how far a log in bronze was taken."""


@dataclass(frozen=True)
class LogVersion:
    """The last version of a log in bronze that was read; from `held` on somebody was left out."""

    version: int
    held: int | None = None


def log_version(context: Context, history: str) -> LogVersion:
    """How far a history has read its log in bronze; version -1 before any of it was."""
    return context.memory(history, LOG, LogVersion) or LogVersion(-1)


def read_to(context: Context, history: str, version: int, left_out: Collection[str]) -> State:
    """The row of internal.states after a round that has read the log up to a version, but for the
    rows of some clusters.
    """
    log, held = log_version(context, history), None
    if left_out:
        # What others have had from there on is passed over by their positions.
        held = log.version if log.held is None else log.held
    return state_of(history, LOG, LogVersion(version, held))


def read_again(context: Context, history: str) -> Iterable[State]:
    """The row of internal.states by which the log is read again from where somebody was left
    out.
    """
    if (held := log_version(context, history).held) is not None:
        yield context.states[history, LOG] | {"memory": dumps(LogVersion(held))}


def beyond(rows: DataFrame, taken: Mapping[str, Positions]) -> DataFrame:
    """Those of `rows` that are beyond what was taken, by alias, with the columns of POSITION
    (jobs/rules/groups/fold_rebalances.py) and `goes_on_at`, the offset that follows.
    """
    done = [
        (cluster, p, era, offset)
        for cluster, positions in taken.items()
        for p, (era, offset) in positions.items()
    ]
    schema = "cluster string, log_partition int, done_era bigint, done_offset bigint"
    offsets = rows.sparkSession.createDataFrame(done, schema)
    found = F.collect_set(F.unix_micros("read_at")).alias("found")
    truncations = rows.where("record = 'truncated'").groupBy(*PARTITION).agg(found)
    # The last truncation that was found before a row was read, by this round or by one before.
    at = "unix_micros(read_at)"
    era = (
        f"coalesce(greatest(IF(done_era <= {at}, done_era, NULL), array_max(filter(found, f -> f "
        f"<= {at}))), 0)"
    )
    return (
        rows.join(F.broadcast(offsets), list(PARTITION), "left")
        .join(F.broadcast(truncations), list(PARTITION), "left")
        .withColumns(
            {
                "era": F.expr(era),
                "place": F.expr("IF(record = 'truncated', next_offset, offset)"),
                "is_record": F.expr("record = 'record'"),
                "goes_on_at": F.expr("coalesce(next_offset, offset + 1)"),
            }
        )
        .where("done_offset IS NULL OR era > done_era OR (era = done_era AND place >= done_offset)")
        .drop("found", "done_era", "done_offset")
    )
