"""Questions that notebooks draw, as SQL for Review.ask."""

from kafka_metadata_history.report.queries import LEVEL_SPANS

BROKERS_OUT = """
SELECT concat('broker ', broker_id, coalesce(concat(', rack ', max(rack) OVER (PARTITION BY broker_id)), '')) AS lane,
  worst_level AS kind, began_after, began_before, ended_after, ended_before,
  concat(partitions, ' partitions', CASE WHEN size(causes) > 0
    THEN concat(': ', array_join(causes, ', ')) ELSE '' END) AS note
FROM gold.broker_incidents
WHERE cluster = :cluster
  AND began_before <= CAST(:until AS TIMESTAMP) AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
ORDER BY began_before, broker_id
"""
"""For pictures.bars: when each broker was missing from ISRs."""

LEVELS = """{spans}
edges AS (
  SELECT level, inline(array(
    struct(sure_from AS at, 1 AS sure, 0 AS maybe),
    struct(sure_until AS at, -1 AS sure, 0 AS maybe),
    struct(maybe_from AS at, 0 AS sure, 1 AS maybe),
    struct(maybe_until AS at, 0 AS sure, -1 AS maybe)))
  FROM spans
)

SELECT level, at, sum(sure) AS sure, sum(maybe) AS maybe
FROM edges
WHERE at IS NOT NULL
GROUP BY level, at
ORDER BY level, at
""".replace("{spans}", LEVEL_SPANS)
"""For pictures.levels: how many partitions were at each level."""

LEADER_CHANGES = """
SELECT began_before, reason, sum(changes_min) AS changes_min,
  CASE WHEN count(changes_max) = count(*) THEN sum(changes_max) END AS changes_max
FROM gold.leader_changes
WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
GROUP BY began_before, reason
ORDER BY began_before, reason
"""
"""For pictures.changes: why leaders changed; not the epochs that rose under one."""

GROUPS = """
WITH rebalances AS (
  SELECT group_id, coalesce(get(reasons, 0), 'unknown') AS kind,
    -- What has no bound is drawn from where it is known.
    coalesce(narrowed_after, began_after, narrowed_before, began_before) AS began_after,
    coalesce(narrowed_before, began_before) AS began_before,
    coalesce(ended_after, ended_before) AS ended_after, ended_before,
    row_number() OVER (PARTITION BY group_id ORDER BY began_before DESC) AS age
  FROM gold.rebalances
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
),

ranked AS (
  SELECT group_id, count(*) OVER () AS of, row_number() OVER (ORDER BY count(*) DESC, group_id) AS place
  FROM rebalances
  GROUP BY group_id
),

storms AS (
  SELECT group_id, kind, began_before AS began_after, began_before,
    last_before AS ended_after, last_before AS ended_before, 1 AS age
  FROM gold.rebalance_storms
  WHERE cluster = :cluster AND began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
)

SELECT group_id AS lane, kind, began_after, began_before, ended_after, ended_before, of
FROM (
  SELECT * FROM rebalances
  UNION ALL SELECT group_id, kind, began_after, began_before, ended_after, ended_before, age FROM storms
)
JOIN ranked USING (group_id)
WHERE place <= :most AND age <= :most_of_each
ORDER BY place, began_before
"""
"""For pictures.bars: rebalances and storms, a lane for each group, most rebalances first. Takes :most,
:most_of_each.
"""

HAPPENED = """
WITH chosen AS (
  SELECT what, broker_id, began_before,
    -- Of groups, what has no bound is drawn from where it is known,
    CASE WHEN group_id IS NULL THEN began_after ELSE coalesce(began_after, began_before) END AS began_after,
    -- and, as each time that a log has is its own, what falls on the same place of a picture is one dot.
    CASE WHEN group_id IS NOT NULL OR began_after = began_before
      THEN unix_micros(began_before) * 1000
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP)))
    END AS place
  FROM gold.incident_timeline
  WHERE cluster = :cluster
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic OR topic IS NULL OR group_id IS NOT NULL)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group OR group_id IS NULL)
    AND (:with_groups OR group_id IS NULL)
)

SELECT what, broker_id, min(began_after) AS began_after, max(began_before) AS began_before, count(*) AS count
FROM chosen
GROUP BY what, broker_id, place, CASE WHEN place IS NULL THEN struct(began_after, began_before) END
ORDER BY coalesce(nullif(array_position(
  array('broker_controlled_shutdown', 'broker_fenced', 'broker_gone', 'isr_left', 'leader_changed',
    'broker_registered', 'broker_unfenced', 'broker_listed', 'isr_rejoined', 'isr_joined', 'isr_initially_out',
    'controller_elected', 'config_set', 'config_changed', 'config_removed', 'coordinator_moved', 'rebalance_began',
    'rebalance_ended', 'storm', 'crash_loop', 'group_static_restart'), what), 0), 99),
  what, began_before
"""
"""For pictures.events: the timeline, counted. Takes :with_groups."""
