"""The status of a lake, asked of it in SQL: whoever has the lake open answers."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa

from jobs.configuration.config import Config
from jobs.configuration.histories import DECLARED, Waits
from kafka_metadata_history.answers.markers import literal, with_values
from kafka_metadata_history.answers.status import LakeStatus, Row, Size, Waiting, clusters_of
from metadata_source.outcomes import NOT_SUPPORTED, PUT_OFF
from schemas.bronze import IS_VISIT
from schemas.internal import UPKEEP, retention_of

# All rows of a poll have the day on which it was due.
_POLLS = f"""
SELECT cluster, poll_id, stream, n, scheduled_at, sent_at, received_at, answered_at, outcome,
  error_kind, error, cluster_id, {IS_VISIT} AS is_visit
FROM {{bronze.metadata_polls}}
WHERE (record = 'poll' OR {IS_VISIT}) AND cluster IN (CLUSTERS)
  AND scheduled_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
"""
_CLUSTERS = """
SELECT c.cluster, c.cluster_id, c.last_seen_at, c.told_by, c.refused_polls, c.stale_polls,
  c.taken, c.waiting, l.last_seen_at AS log_read_at, l.done_at AS log_known_until
FROM {internal.clusters} c LEFT JOIN {internal.cluster_logs} l ON l.cluster = c.cluster
"""
_STATES = """
SELECT history, cluster, round, done_at, why, coalesce(size(map_keys(positions)), 0) > 0 AS was_read
FROM {internal.state}
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
    AND scheduled_at >= CAST(:asked_since AS TIMESTAMP) AND day >= CAST(:asked_day AS DATE)
)
GROUP BY cluster, kind
"""
_GAPS = """
SELECT cluster, gap_start, gap_end FROM {silver.poll_gaps}
WHERE cluster IN (CLUSTERS) AND gap_end >= CAST(:since AS TIMESTAMP)
"""
# Each stretch that was read has a row that says so: its records need not be looked at.
_LOG_OF = """
SELECT cluster, max(read_at) AS read_at,
  coalesce(sum(CASE WHEN record = 'lost' THEN next_offset - offset END), 0) AS lost
FROM {LOG}
WHERE record IN ('read', 'lost', 'truncated') AND cluster IN (CLUSTERS)
  AND read_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
GROUP BY cluster
"""
_LOGS, _TRANSACTION_LOGS = (
    _LOG_OF.replace("LOG", table) for table in ("bronze.group_log", "bronze.transaction_log")
)
_RECORDED = """
SELECT cluster, max(read_at) AS recorded_at FROM {bronze.cluster_log}
WHERE cluster IN (CLUSTERS) AND read_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
GROUP BY cluster
"""


def status_of(
    ask: Callable[[str], pa.Table],
    sizes: Callable[[], Iterable[Size]],
    config: Config,
    now: datetime,
) -> LakeStatus:
    """Return the status of a lake. `ask`: Spark's SQL in which `{schema.name}` is a table."""
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

    shown = [
        each.waits for each in DECLARED if each.waits is not None and each.waits.clusters(config)
    ]
    with ThreadPoolExecutor(4, "status") as side_by_side:
        found = side_by_side.map(asked, (_POLLS, _CLUSTERS, _STATES, _GAPS, _ANSWERS))
        waits = side_by_side.map(asked, (each.query for each in shown))
        logs = None if config.group_log is None else side_by_side.submit(asked, _LOGS)
        transactions = (
            None
            if config.transaction_log is None
            else side_by_side.submit(asked, _TRANSACTION_LOGS)
        )
        recorded = None if config.cluster_log is None else side_by_side.submit(asked, _RECORDED)
        of_tables = list(sizes())
        polls, clusters, states, gaps, answers = found
        waiting = waiting_of(zip(shown, waits, strict=True), config)
    return LakeStatus(
        now,
        str(config.lake),
        window,
        clusters_of(
            intervals,
            headers=polls,
            clusters=clusters,
            states=states,
            gaps=gaps,
            logs=None if logs is None else logs.result(),
            transaction_logs=None if transactions is None else transactions.result(),
            waiting=waiting,
            followed=frozenset(config.with_controllers),
            asked=config.asked_for("offsets"),
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
            for row in clusters
            if row["stale_polls"] and row["cluster"] not in config.clusters
        },
    )


def waiting_of(
    found: Iterable[tuple[Waits, Iterable[Row]]], config: Config
) -> dict[str, tuple[Waiting, ...]]:
    """By alias, what waits for each history that is made of the cluster, by rows of its query."""
    waiting: dict[str, dict[str, Waiting]] = {alias: {} for alias in config.clusters}
    for waits, rows in found:
        since = {row["cluster"]: row["since"] for row in rows}
        for alias in waits.clusters(config):
            before = waiting[alias].get(waits.history)
            times = (since.get(alias), None if before is None else before.since)
            first = min((at for at in times if at is not None), default=None)
            waiting[alias][waits.history] = Waiting(
                waits.history, first, waits.says, waits.takes_polls
            )
    return {alias: tuple(of_cluster.values()) for alias, of_cluster in waiting.items()}
