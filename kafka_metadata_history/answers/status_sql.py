"""The facts of a status, asked of a lake in SQL: whoever has the lake open answers."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa

from jobs.configuration.config import Config
from kafka_metadata_history.answers.markers import literal, with_values
from kafka_metadata_history.answers.status import Facts, Row, Size, clusters_of
from metadata_source.outcomes import NOT_SUPPORTED, PUT_OFF
from schemas.bronze import IS_VISIT, NOT_TAKEN
from schemas.internal import UPKEEP, retention_of

# All rows of a poll have the day on which it was due.
_POLLS = f"""
SELECT cluster, poll_id, stream, n, scheduled_at, sent_at, received_at, answered_at, outcome,
  error_kind, error, cluster_id, {IS_VISIT} AS is_visit
FROM {{bronze.metadata_polls}}
WHERE (record = 'poll' OR {IS_VISIT}) AND cluster IN (CLUSTERS)
  AND scheduled_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE)
"""
_STATES = """
SELECT history, cluster, cluster_id, round, done_poll, done_at, changed_poll, last_seen_at, told_by,
  refused_polls, stale_polls, of.seen, of.waiting, of.places, of.says
FROM (
  SELECT *, from_json(
    memory,
    'seen map<string,bigint>, waiting array<string>, places map<string,array<bigint>>, says string'
  ) AS of
  FROM {internal.state}
)
"""
# Those after the last one that was told. A question that was put off says less than one that
# failed.
_ANSWERS = f"""
SELECT cluster, kind, count(CASE WHEN is_after THEN 1 END) AS failing,
  min(CASE WHEN is_after THEN scheduled_at END) AS failing_since,
  CASE WHEN count(CASE WHEN is_after THEN 1 END) > 0 THEN max_by(
    outcome, CASE WHEN NOT is_after THEN '' WHEN outcome LIKE '{PUT_OFF}%' THEN '0' ELSE poll_id END
  ) END AS outcome
FROM (
  SELECT cluster, kind, outcome, scheduled_at, poll_id, poll_id > coalesce(
    max(CASE WHEN outcome LIKE 'ok%' OR outcome = '{NOT_SUPPORTED}' THEN poll_id END)
      OVER (PARTITION BY cluster, kind), '') AS is_after
  FROM {{bronze.metadata_polls}}
  WHERE record = 'answer' AND cluster IN (CLUSTERS)
    AND scheduled_at >= CAST(:asked_since AS TIMESTAMP)
    AND day >= CAST(:asked_day AS DATE)
)
GROUP BY cluster, kind
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
WHERE record IN ('read', 'lost', 'truncated') AND cluster IN (CLUSTERS)
  AND read_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE)
GROUP BY cluster
"""
# That cost has taken rebalances, and up to when, is in the one row that its rounds write.
_COSTS = """
SELECT cluster, min(updated_at) AS costs_wait_since
FROM {internal.rebalances} LEFT JOIN (
  SELECT from_json(memory, 'told timestamp').told AS told FROM {internal.state}
  WHERE history = 'rebalance_cost'
) ON true
WHERE source = 'log' AND group_type <> 'share' AND ended_before IS NOT NULL
  AND cluster IN (CLUSTERS)
  AND updated_at >= CAST(:since AS TIMESTAMP) AND (told IS NULL OR updated_at > told)
GROUP BY cluster
"""
_LOGS = f"""
SELECT cluster, read_at, waits_since, coalesce(lost, 0) AS lost, costs_wait_since
FROM ({_READ}) FULL JOIN ({_COSTS}) USING (cluster)
"""


_RECORDED = """
SELECT cluster, max(read_at) AS recorded_at FROM {bronze.cluster_log}
WHERE cluster IN (CLUSTERS) AND read_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
GROUP BY cluster
"""


def facts_of(
    ask: Callable[[str], pa.Table],
    sizes: Callable[[], Iterable[Size]],
    config: Config,
    now: datetime,
) -> Facts:
    """Return the facts that the lake holds. `ask` answers Spark's SQL, in which `{schema.name}` is
    a table or view.
    """
    intervals = config.poll_intervals
    window = config.limits.window_of(max(intervals.values()))
    since = now - window
    asked_since = now - max(window, (config.limits.unanswered + 1) * config.longest_beat)
    values = {
        name + of: text
        for name, at in (("", since), ("asked_", asked_since))
        for of, text in (
            ("since", at.isoformat()),
            ("day", at.astimezone(UTC).date().isoformat()),
        )
    }

    def asked(query: str) -> list[Row]:
        sql = with_values(
            query.replace("CLUSTERS", ", ".join(map(literal, config.clusters))), values
        )
        rows: list[Row] = ask(sql).to_pylist(maps_as_pydicts="strict")
        return rows

    with ThreadPoolExecutor(4, "status") as side_by_side:
        found = side_by_side.map(asked, (_POLLS, _STATES, _GAPS, _ANSWERS))
        logs = None if config.group_log is None else side_by_side.submit(asked, _LOGS)
        recorded = None if config.cluster_log is None else side_by_side.submit(asked, _RECORDED)
        of_tables = list(sizes())
        polls, states, gaps, answers = found
    return Facts(
        now,
        str(config.lake),
        window,
        clusters_of(
            intervals,
            headers=polls,
            states=states,
            gaps=gaps,
            logs=None if logs is None else logs.result(),
            followed=frozenset(config.with_controllers),
            asked=config.asked_for_offsets,
            answers=answers,
            recorded={
                row["cluster"]: row["recorded_at"]
                for row in ([] if recorded is None else recorded.result())
            },
        ),
        of_tables,
        max((row["done_at"] for row in states if row["history"] == UPKEEP), default=None),
        max((row["round"] for row in states), default=0),
        {
            row["history"].removeprefix(retention_of("")): row["done_at"]
            for row in states
            if row["history"].startswith(retention_of("")) and row["done_at"] is not None
        },
        {
            row["cluster"]: row["stale_polls"]
            for row in states
            if row["history"] == "silver"
            and row["stale_polls"]
            and row["cluster"] not in config.clusters
        },
    )
