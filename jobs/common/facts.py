"""The facts of a status, asked of a lake in SQL: whoever has the lake open answers."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from jobs.common.config import Config
from jobs.common.markers import literal, with_values
from jobs.common.status import Facts, Row, Size, clusters_of
from metadata_source.options import MAX_BATCH_MS

UPKEEP = "upkeep"
"""The row of internal.state that says when upkeep last began, and what each table's newest change was then."""

NOT_TAKEN = """(places[string(log_partition)][1] IS NULL
  OR coalesce(next_offset, offset + 1) > places[string(log_partition)][1]
  -- Before a log was truncated it had offsets that it may not reach again for long.
  AND (places[string(log_partition)][0] <= 0 OR read_at >= timestamp_micros(places[string(log_partition)][0])))"""
"""That rebalances have not had a row, by `places` of their cluster's row of internal.state."""

IS_VISIT = "record = 'answer' AND kind = 'offsets' AND outcome LIKE 'ok%' AND cluster_id IS NOT NULL"
"""That a row of bronze is the header of an answer that tells the offsets of all groups."""

# All rows of a batch have the day on which its first poll was due.
_POLLS = f"""
SELECT cluster, poll_id, stream, n, scheduled_at, sent_at, received_at, answered_at, outcome, error_kind, error,
  {IS_VISIT} AS is_visit
FROM {{bronze.metadata_polls}}
WHERE (record = 'poll' OR {IS_VISIT}) AND cluster IN (CLUSTERS) AND scheduled_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE)
"""
_STATES = """
SELECT history, cluster, round, done_poll, done_at, changed_poll, last_seen_at, told_by, refused_polls, stale_polls,
  of.seen, of.waiting
FROM (
  SELECT *, from_json(memory, 'seen map<string, bigint>, waiting array<string>') AS of FROM {internal.state}
)
"""
_GAPS = """
SELECT cluster, gap_start, gap_end FROM {silver.poll_gaps}
WHERE cluster IN (CLUSTERS) AND gap_end >= CAST(:since AS TIMESTAMP)
"""
# Each stretch that was read has a row that says so: its records need not be looked at.
_READ = f"""
SELECT cluster, max(read_at) AS read_at, min(CASE WHEN {NOT_TAKEN} THEN read_at END) AS waits_since,
  coalesce(sum(CASE WHEN record = 'lost' THEN next_offset - offset END), 0) AS lost
FROM {{bronze.group_log}} LEFT JOIN (
  SELECT cluster, from_json(memory, 'places map<string, array<bigint>>').places AS places
  FROM {{internal.state}} WHERE history = 'rebalance_history'
) USING (cluster)
WHERE record IN ('read', 'lost', 'truncated') AND cluster IN (CLUSTERS) AND read_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE)
GROUP BY cluster
"""
# That cost has taken rebalances, and up to when, is in the one row that its rounds write.
_COSTS = """
SELECT cluster, min(updated_at) AS costs_wait_since
FROM {gold.rebalances_told} LEFT JOIN (
  SELECT from_json(memory, 'told timestamp').told AS told FROM {internal.state} WHERE history = 'rebalance_cost'
) ON true
WHERE source = 'log' AND group_type <> 'share' AND ended_before IS NOT NULL AND cluster IN (CLUSTERS)
  AND updated_at >= CAST(:since AS TIMESTAMP) AND (told IS NULL OR updated_at > told)
GROUP BY cluster
"""
_LOGS = f"""
SELECT cluster, read_at, waits_since, coalesce(lost, 0) AS lost, costs_wait_since
FROM ({_READ}) FULL JOIN ({_COSTS}) USING (cluster)
"""


def facts_of(
    ask: Callable[[str], pa.Table], sizes: Callable[[], Iterable[Size]], config: Config, now: datetime
) -> Facts:
    """Return the facts that the lake holds. `ask` answers Spark's SQL, in which `{schema.name}` is a table or view."""
    intervals = config.poll_intervals
    window = config.limits.window_of(max(intervals.values()))
    since = now - window
    values = {
        "since": since.isoformat(),
        "day": (since - timedelta(milliseconds=MAX_BATCH_MS)).astimezone(UTC).date().isoformat(),
    }

    def asked(query: str) -> list[Row]:
        sql = with_values(query.replace("CLUSTERS", ", ".join(map(literal, config.clusters))), values)
        rows: list[Row] = ask(sql).to_pylist(maps_as_pydicts="strict")
        return rows

    queries = [_POLLS, _STATES, _GAPS, *([_LOGS] if config.group_log is not None else [])]
    with ThreadPoolExecutor(4, "status") as side_by_side:
        found = side_by_side.map(asked, queries)
        of_tables = list(sizes())
        polls, states, gaps, *logs = found
    return Facts(
        now,
        str(config.lake),
        window,
        clusters_of(
            intervals,
            headers=polls,
            states=states,
            gaps=gaps,
            logs=logs[0] if logs else None,
            followed=frozenset(config.with_controllers),
            asked=config.asked_for_offsets,
        ),
        of_tables,
        max((row["done_at"] for row in states if row["history"] == UPKEEP), default=None),
        max((row["round"] for row in states), default=0),
    )
