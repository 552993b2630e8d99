-- Which incidents were there, how bad, and why?
-- A row is one incident that lasted in the window: a broker missing, a partition offline, and all that follows from it.
-- explain ID tells its story. Those that became part of another one, or proved to be none, are left out. --topic knows
-- the topics that are named as examples. not_observed_s is how much of the most seconds nobody observed: none of it is
-- in the least. An incident that lasts can have lasted up to the window's end. offline_most and under_min_isr_most: the
-- most of its partitions that were so at a time.
-- theme: what happened
WITH spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until,
    CASE
      WHEN kind LIKE 'group%' THEN 'rebalance_history'
      WHEN kind LIKE 'quorum%' OR kind = 'stale_broker' THEN 'polls'
      ELSE 'isr_shrink'
    END AS history
  FROM gold.incidents
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (end_reason IS NULL OR end_reason NOT IN ('merged', 'withdrawn'))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers, CAST(:broker AS INT)))
    AND (CAST(:group AS STRING) IS NULL OR array_contains(group_ids, CAST(:group AS STRING))
      OR id IN (SELECT incident_id FROM gold.incident_links WHERE group_id = :group))
    AND (CAST(:topic AS STRING) IS NULL OR array_contains(topics, CAST(:topic AS STRING)))
),

observed AS (
  SELECT s.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM spans s
  LEFT JOIN silver.observed o
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = s.history
),

summed AS (
  SELECT *,
    (greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
    CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max
  FROM observed
)

SELECT cluster, began_after, began_before, severity, id, kind, concat_ws(' ', cause, cause_of) AS cause,
  seconds_min, seconds_max, maybe_unobserved / 1e6 AS not_observed_s,
  cause_sureness, class, brokers, offline_most, under_min_isr_most, ended_after, ended_before, end_reason
FROM summed
WHERE CAST(:at_least AS INT) IS NULL OR seconds_min >= CAST(:at_least AS INT)
ORDER BY began_before, cluster, id
