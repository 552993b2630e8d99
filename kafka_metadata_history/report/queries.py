"""The report's questions, in Spark's SQL: every query is narrow, and bounded, however much
happened.

Each section names its rows (`happened`); `drawn()` puts them in lanes and in marks, which are what
a figure draws. Where there are more rows than marks, rows of one lane and kind that begin and end
in the same cells of the window are one mark; else rows with the same bounds are. All queries take
:since, :until, :cluster, :topic, :broker, :group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.answers.markers import with_values

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_LANES: Final = 15
MOST_MARKS: Final = 1_200
MOST_ROWS: Final = 1_800
"""Of a section. Rows are those behind the marks: of each mark the first, of each the second, and so
on.
"""
ROWS_OF_MARK: Final = 25
CELLS: Final = 200
"""A window is cut into so many where there are more rows than marks."""
MOST_GAPS: Final = 300

CLUSTERS: Final = """
SELECT r.cluster, r.silver_from, r.gold_from, r.until, coalesce(h.events, 0) AS events
FROM silver.reach r
LEFT JOIN (
  SELECT cluster, count(*) AS events FROM gold.incident_timeline
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  GROUP BY cluster
) h ON h.cluster = r.cluster
ORDER BY events DESC, r.cluster
"""
"""Every cluster, the one to which most happened first."""

KNOWN: Final = (
    "SELECT cluster, silver_from, gold_from, until FROM silver.reach WHERE cluster = :cluster"
)

GAPS: Final = """
SELECT gap_start, gap_end, reason, error_kinds, count(*) OVER () AS gaps
FROM silver.poll_gaps g
WHERE cluster = :cluster
  AND gap_start <= CAST(:until AS TIMESTAMP) AND gap_end >= CAST(:since AS TIMESTAMP)
  -- Where the controllers' log told meanwhile, more than nothing is known.
  AND NOT EXISTS (
    SELECT 1 FROM silver.history_sources h
    WHERE h.cluster_id = g.cluster_id AND h.source = 'log' AND h.valid_from <= g.gap_start
      AND (h.valid_to IS NULL OR h.last_seen_at >= g.gap_end))
ORDER BY unix_micros(gap_end) - unix_micros(gap_start) DESC, gap_start
LIMIT :most
"""
"""The longest gaps."""


@dataclass(frozen=True)
class Section:
    """A figure in lanes. `happened`: its rows, as SQL; `narrowed`: the options that narrow it.
    `is_optional`: without rows there is no figure.
    """

    name: str
    title: str
    table: str
    happened: str
    narrowed: tuple[str, ...]
    lane: str
    """The word for a lane."""
    is_optional: bool = False


BROKERS: Final = Section(
    name="brokers",
    title="Brokers that ISRs lacked",
    table="gold.broker_incidents",
    lane="broker",
    narrowed=("broker",),
    happened="""
  SELECT id, concat('broker ', broker_id) AS lane, worst_level AS kind,
    coalesce(nullif(array_position(
      array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), worst_level
    ), 0), 1) AS weight,
    partitions AS size, 1 AS counted, began_after, began_before, ended_after, ended_before,
    concat('broker ', broker_id, coalesce(concat(', rack ', rack), '')) AS subject,
    concat(partitions, IF(partitions = 1, ' partition', ' partitions'), ' lacked it') AS details,
    array_join(causes, ', ') AS inferred
  FROM gold.broker_incidents
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
  UNION ALL
  SELECT concat(what, '/', broker_id, '/', began_before), concat('broker ', broker_id), what,
    0, 0, 0, began_after, began_before, CAST(NULL AS TIMESTAMP), CAST(NULL AS TIMESTAMP),
    concat('broker ', broker_id), coalesce(after, before), inferred
  FROM gold.incident_timeline
  WHERE cluster = :cluster
    AND startswith(what, 'broker_')
    -- A broker that the first poll lists, or that the first snapshot has, did not come then.
    AND (what NOT IN ('broker_listed', 'broker_registered') OR began_after IS NOT NULL)
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
""",
)

PARTITIONS: Final = Section(
    name="isrs",
    title="ISRs: the worst partitions",
    table="gold.isr_episodes",
    lane="partition",
    narrowed=("topic", "broker"),
    happened="""
  SELECT id, concat(topic, '-', partition) AS lane, level AS kind,
    coalesce(nullif(array_position(
      array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), level
    ), 0), 1) AS weight,
    1 AS size, 1 AS counted, began_after, began_before, ended_after, ended_before,
    concat(topic, '-', partition) AS subject,
    concat_ws(', ',
      CASE WHEN size(brokers_out) > 0 THEN concat('out: ', array_join(brokers_out, ', ')) END,
      concat('smallest ISR ', smallest_isr),
      concat('min ISR ', min_isr), concat('ended: ', end_reason)) AS details,
    CAST(NULL AS STRING) AS inferred
  FROM gold.isr_episodes
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
""",
)

LEADERS: Final = Section(
    name="leaders",
    title="Leader changes, by reason (inferred)",
    table="gold.leader_changes",
    lane="reason",
    narrowed=("topic", "broker"),
    happened="""
  SELECT id,
    concat_ws(', ', reason, CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END) AS lane,
    CASE WHEN unclean <> 'no' THEN 'unclean' ELSE reason END AS kind,
    CASE WHEN unclean <> 'no' THEN 2 WHEN reason = 'offline' THEN 1 ELSE 0 END AS weight,
    changes_min AS size, 1 AS counted, began_after, began_before,
    CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
    concat(topic, '-', partition) AS subject,
    concat_ws(', ', concat('leader ', prev_leader, ' to ', leader),
      concat('epoch ', prev_leader_epoch, ' to ', leader_epoch),
      concat('ISR {', array_join(prev_isr, ','), '} to {', array_join(isr, ','), '}')) AS details,
    concat_ws(', ', reason,
      CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END) AS inferred
  FROM gold.leader_changes
  WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
""",
)

GROUPS: Final = Section(
    name="groups",
    title="Rebalances, by group",
    table="gold.rebalances",
    lane="group",
    narrowed=("topic", "broker", "group"),
    happened="""
  SELECT id, group_id AS lane, coalesce(get(reasons, 0), 'unknown') AS kind,
    0 AS weight, 1 AS size, 1 AS counted,
    coalesce(narrowed_after, began_after) AS began_after,
    coalesce(narrowed_before, began_before) AS began_before,
    ended_after, ended_before, group_id AS subject,
    concat_ws(', ',
      concat('generation ', coalesce(concat(prev_generation, ' to '), ''), generation),
      concat('members ', coalesce(concat(prev_members, ' to '), ''), members),
      concat(partitions_moved, ' partitions moved'), concat('coordinator ', coordinator),
      end_reason,
      concat('nobody consumed for ', coalesce(concat(pause_ms_min, ' to '), 'at most '),
        pause_ms_max, ' ms'),
      concat('lag ', lag_before, ' to ', lag_peak),
      concat('consumed again or given back: ', reprocessed_min,
        coalesce(concat(' to ', reprocessed_max), ' or more'))) AS details,
    array_join(reasons, ', ') AS inferred
  FROM gold.rebalances
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
    AND (CAST(:topic AS STRING) IS NULL OR id IN (
      SELECT rebalance_id FROM gold.rebalance_topics
      WHERE topic = :topic AND cluster = :cluster AND began_before <= CAST(:until AS TIMESTAMP)))
  UNION ALL
  SELECT id, group_id, kind, 0, 0, 0, began_before, began_before, last_before, last_before,
    group_id, concat_ws(', ', concat(rebalances, ' rebalances'), concat('client ', client_id),
      concat('host ', client_host)),
    CAST(NULL AS STRING)
  FROM gold.rebalance_storms
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND CAST(:broker AS INT) IS NULL AND CAST(:topic AS STRING) IS NULL
""",
)

COORDINATORS: Final = Section(
    name="coordinators",
    title="Coordinators of groups that moved",
    table="gold.group_events",
    lane="move",
    narrowed=("broker", "group"),
    happened="""
  SELECT id, concat(IF(prev_broker_id = -1, 'none', prev_broker_id), ' to ',
      IF(broker_id = -1, 'none', broker_id)) AS lane,
    'coordinator_moved' AS kind, 0 AS weight, 1 AS size, 1 AS counted, began_after, began_before,
    CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
    group_id AS subject,
    concat_ws(', ', concat('broker ', prev_broker_id, ' to ', broker_id),
      concat('__consumer_offsets-', log_partition)) AS details,
    CAST(NULL AS STRING) AS inferred
  FROM gold.group_events
  WHERE cluster = :cluster AND event = 'coordinator_moved'
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (broker_id, prev_broker_id))
""",
)

SETTINGS: Final = Section(
    name="settings",
    title="Controllers, features and configurations",
    table="gold.incident_timeline",
    lane="kind",
    narrowed=(),
    is_optional=True,
    happened="""
  SELECT concat_ws('/', what, topic, group_id, broker_id, before, after) AS id,
    replace(what, '_', ' ') AS lane,
    what AS kind, 0 AS weight, 1 AS size, 1 AS counted, began_after, began_before,
    CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
    coalesce(topic, group_id, concat('broker ', broker_id), 'cluster') AS subject,
    concat_ws(' to ', before, after) AS details, inferred
  FROM gold.incident_timeline
  WHERE cluster = :cluster
    AND (startswith(what, 'controller_') OR startswith(what, 'config_')
      OR startswith(what, 'feature_'))
    -- So it was already when the log's history began.
    AND began_after IS NOT NULL
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
""",
)

SECTIONS: Final = (BROKERS, PARTITIONS, LEADERS, GROUPS, COORDINATORS, SETTINGS)

_DRAWN: Final = """
WITH happened AS ({happened}),

ranked AS (
  SELECT lane, row_number() OVER (ORDER BY max(weight) DESC, sum(counted) DESC, lane) AS place,
    count(*) OVER () AS lanes_all, sum(sum(counted)) OVER () AS counted_all,
    sum(count(*)) OVER () AS rows_all
  FROM happened
  GROUP BY lane
),

numbered AS (
  SELECT h.*, r.place, r.lanes_all, r.counted_all, r.rows_all,
    count(*) OVER () > :most_marks AS is_many,
    row_number() OVER (ORDER BY h.began_before, h.lane, h.kind, h.id) AS number
  FROM happened h JOIN ranked r ON r.lane = h.lane
  WHERE r.place <= :most_lanes
),

marked AS (
  SELECT *, dense_rank() OVER (ORDER BY place, kind,
      CASE WHEN is_many THEN unix_micros(greatest(began_before, CAST(:since AS TIMESTAMP))) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP))) END,
      CASE WHEN is_many THEN unix_micros(least(ended_before, CAST(:until AS TIMESTAMP))) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP))) END,
      CASE WHEN NOT is_many THEN began_after END, CASE WHEN NOT is_many THEN began_before END,
      CASE WHEN NOT is_many THEN ended_after END, CASE WHEN NOT is_many THEN ended_before END
    ) AS cell
  FROM numbered
),

summed AS (
  SELECT *, row_number() OVER (PARTITION BY cell ORDER BY number) AS age,
    count(*) OVER (PARTITION BY cell) AS mark_rows,
    sum(size) OVER (PARTITION BY cell) AS mark_size,
    max(weight) OVER (PARTITION BY cell) AS mark_weight,
    CASE WHEN count(began_after) OVER (PARTITION BY cell) = count(*) OVER (PARTITION BY cell)
      THEN min(began_after) OVER (PARTITION BY cell) END AS mark_began_after,
    min(began_before) OVER (PARTITION BY cell) AS mark_began_before,
    max(began_before) OVER (PARTITION BY cell) AS mark_last_before,
    max(ended_after) OVER (PARTITION BY cell) AS mark_ended_after,
    CASE WHEN count(ended_before) OVER (PARTITION BY cell) = count(*) OVER (PARTITION BY cell)
      THEN max(ended_before) OVER (PARTITION BY cell) END AS mark_ended_before
  FROM marked
),

chosen AS (
  SELECT *, dense_rank() OVER (ORDER BY mark_weight DESC, mark_rows DESC, cell) AS mark FROM summed
)

SELECT id, lane, place, kind, mark, mark_rows, mark_size, mark_began_after, mark_began_before,
  mark_last_before, mark_ended_after, mark_ended_before,
  began_after, began_before, ended_after, ended_before, subject, details, inferred,
  lanes_all, counted_all, rows_all
FROM chosen
WHERE mark <= :most_marks AND age <= :rows_of_mark
ORDER BY age, mark
LIMIT :most_rows
"""

DEPARTURES: Final = """
WITH departed AS (
  SELECT i.id AS incident, c.id, c.change, c.topic, c.partition,
    c.began_after, c.began_before, c.ended_after, c.ended_before, c.prev_isr, c.isr, c.cause,
    row_number() OVER (PARTITION BY i.id ORDER BY c.began_before, c.topic, c.partition) AS age
  FROM gold.broker_incidents i
  JOIN gold.isr_changes c
    ON c.cluster_id = i.cluster_id AND c.broker_id = i.broker_id
      AND c.change IN ('left', 'initially_out') AND c.began_before >= i.began_before
      AND (i.ended_before IS NULL OR c.began_before <= i.ended_before)
  WHERE i.cluster = :cluster
    AND i.began_before <= CAST(:until AS TIMESTAMP)
    AND (i.ended_before IS NULL OR i.ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR i.broker_id = :broker)
)

SELECT incident, change AS kind, concat(topic, '-', partition) AS subject,
  began_after, began_before, ended_after, ended_before,
  concat('ISR {', array_join(prev_isr, ','), '} to {', array_join(isr, ','), '}') AS details,
  cause AS inferred
FROM departed
WHERE age <= :rows_of_mark
ORDER BY age, incident
LIMIT :most_rows
"""
"""The departures from ISRs that an incident of a broker is made of."""

LEVELS: Final = """
WITH spans AS (
  SELECT level,
    greatest(began_before, CAST(:since AS TIMESTAMP)) AS sure_from,
    CASE WHEN ended_before IS NOT NULL THEN greatest(ended_after, began_before) END AS sure_until,
    greatest(coalesce(began_after, CAST(:since AS TIMESTAMP)), CAST(:since AS TIMESTAMP))
      AS maybe_from,
    ended_before AS maybe_until
  FROM gold.isr_episodes
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
),

edges AS (
  SELECT level, sure_from AS at, 1 AS sure, 0 AS maybe FROM spans
  UNION ALL SELECT level, greatest(sure_until, sure_from), -1, 0 FROM spans
    WHERE sure_until IS NOT NULL
  UNION ALL SELECT level, maybe_from, 0, 1 FROM spans
  UNION ALL SELECT level, maybe_until, 0, -1 FROM spans WHERE maybe_until IS NOT NULL
),

steps AS (SELECT level, at, sum(sure) AS sure, sum(maybe) AS maybe FROM edges GROUP BY level, at),

counts AS (
  SELECT level, at, sum(sure) OVER (PARTITION BY level ORDER BY at) AS sure,
    sum(maybe) OVER (PARTITION BY level ORDER BY at) AS maybe,
    CASE WHEN count(*) OVER () > :most_marks
      THEN unix_micros(at) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP)))
      ELSE unix_micros(at) END AS cell
  FROM steps
)

SELECT level, min(at) AS first_at, max(at) AS last_at,
  max(sure) AS most_sure, max(maybe) AS most_maybe,
  max_by(sure, at) AS last_sure, max_by(maybe, at) AS last_maybe
FROM counts
GROUP BY level, cell
ORDER BY level, first_at
"""
"""How many partitions were at each level, from step to step; where there are too many steps, the
most in each cell.
"""

LARGEST: Final = """
WITH brokers AS (
  SELECT concat('broker ', broker_id, ' was missing from the ISRs of ', partitions,
      IF(partitions = 1, ' partition', ' partitions'), '; worst: ',
      replace(replace(worst_level, '_', ' '), 'isr', 'ISR')) AS thing,
    began_after, began_before, ended_after, ended_before, array_join(causes, ', ') AS inferred,
    row_number() OVER (ORDER BY array_position(
      array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), worst_level
    ) DESC, partitions DESC, began_before, broker_id) AS place
  FROM gold.broker_incidents
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
),

topics AS (
  SELECT topic, level, count(DISTINCT partition) AS partitions, min(began_after) AS began_after,
    min(began_before) AS began_before, max(ended_after) AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before
  FROM gold.isr_episodes
  WHERE cluster = :cluster AND level IN ('offline', 'under_min_isr')
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
  GROUP BY topic, level
),

levels AS (
  SELECT concat('topic ', topic, ': ', partitions,
      IF(partitions = 1, ' partition ', ' partitions '),
      IF(level = 'offline', 'without a leader', 'under min ISR')) AS thing,
    began_after, began_before, ended_after, ended_before, CAST(NULL AS STRING) AS inferred,
    row_number()
      OVER (ORDER BY level = 'offline' DESC, partitions DESC, began_before, topic) AS place
  FROM topics
),

leaders AS (
  SELECT concat('topic ', topic, ': ', count(*),
      IF(count(*) = 1, ' leader change', ' leader changes'),
      CASE WHEN count_if(unclean <> 'no') > 0
        THEN concat(', ', count_if(unclean <> 'no'), ' unclean') ELSE '' END) AS thing,
    min(began_after) AS began_after, min(began_before) AS began_before,
    max(began_after) AS ended_after, max(began_before) AS ended_before,
    array_join(array_sort(collect_set(reason)), ', ') AS inferred,
    row_number() OVER (ORDER BY count_if(unclean <> 'no') DESC, count(*) DESC, topic) AS place
  FROM gold.leader_changes
  WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
  GROUP BY topic
)

SELECT thing, began_after, began_before, ended_after, ended_before, inferred, place
FROM brokers WHERE place <= 10
UNION ALL
SELECT thing, began_after, began_before, ended_after, ended_before, inferred, place
FROM levels WHERE place <= 10
UNION ALL
SELECT thing, began_after, began_before, ended_after, ended_before, inferred, place
FROM leaders WHERE place <= 10
"""
"""The largest of brokers, of levels of topics, and of leader changes by topic."""

LARGEST_OF_GROUPS: Final = """
WITH counted AS (
  SELECT group_id, count(*) AS rebalances,
    CASE WHEN count(coalesce(narrowed_after, began_after)) = count(*)
      THEN min(coalesce(narrowed_after, began_after)) END AS began_after,
    min(coalesce(narrowed_before, began_before)) AS began_before,
    max(ended_after) AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before,
    max(get(reasons, 0)) AS reason, count(DISTINCT get(reasons, 0)) AS reasons
  FROM gold.rebalances
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
    AND (CAST(:topic AS STRING) IS NULL OR id IN (
      SELECT rebalance_id FROM gold.rebalance_topics
      WHERE topic = :topic AND cluster = :cluster AND began_before <= CAST(:until AS TIMESTAMP)))
  GROUP BY group_id
)

SELECT concat('group ', group_id, ': ', rebalances,
    IF(rebalances = 1, ' rebalance', ' rebalances')) AS thing,
  began_after, began_before, ended_after, ended_before,
  CASE WHEN reasons = 1 THEN reason WHEN reasons > 1 THEN concat(reasons, ' reasons') END
    AS inferred,
  row_number() OVER (ORDER BY rebalances DESC, group_id) AS place
FROM counted
ORDER BY place
LIMIT 10
"""
"""The groups that rebalanced most."""


def drawn(section: Section) -> str:
    """Return the query of a section: the rows behind its marks, each with what its mark sums up."""
    return _DRAWN.replace("{happened}", section.happened)


def limited(sql: str) -> str:
    """Return a query of this module with its limits."""
    return with_values(sql, _LIMITS)


_LIMITS: Final[Mapping[str, object]] = {
    "most": MOST_GAPS,
    "most_lanes": MOST_LANES,
    "most_marks": MOST_MARKS,
    "most_rows": MOST_ROWS,
    "rows_of_mark": ROWS_OF_MARK,
    "cells": CELLS,
}
