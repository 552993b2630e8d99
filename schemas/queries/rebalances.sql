-- Which groups rebalanced, how long, why, how much moved?
-- --broker is the coordinator. Of classic groups the log tells a rebalance at its end: where polls saw it begin, that
-- is when it began. not_observed_s is how much of the longest duration nobody observed: none of it is in the shortest.
-- A rebalance that lasts can have lasted up to the window's end.
-- theme: groups
WITH chosen AS (
  SELECT *, coalesce(narrowed_before, began_before) AS surely_from,
    CASE WHEN ended_before IS NULL THEN CAST(:until AS TIMESTAMP) ELSE coalesce(ended_after, began_before) END
      AS surely_until,
    coalesce(narrowed_after, began_after, narrowed_before, began_before) AS maybe_from,
    coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.rebalances
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)) AND lasts_until >= CAST(:since AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:topic AS STRING) IS NULL OR id IN (
      SELECT rebalance_id FROM gold.rebalance_topics
      WHERE topic = :topic AND began_before <= CAST(:until AS TIMESTAMP)
        AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
        AND (CAST(:group AS STRING) IS NULL OR group_id = :group)))
),

observed AS (
  SELECT c.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM chosen c
  LEFT JOIN silver.observed o
    ON o.cluster_id = c.cluster_id AND o.cluster = c.cluster
      AND o.history = IF(c.source = 'log', 'group_log', 'rebalance_history')
)

SELECT cluster, group_id, generation,
  coalesce(narrowed_after, began_after) AS began_after, surely_from AS began_before,
  CAST(floor((greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1000) AS BIGINT)
    AS duration_ms_min,
  CASE WHEN coalesce(narrowed_after, began_after) IS NOT NULL
    THEN CAST(floor((unix_micros(maybe_until) - unix_micros(maybe_from)) / 1000) AS BIGINT) END AS duration_ms_max,
  reasons, members, partitions_moved,
  group_type, source, prev_generation, skipped_generations, ended_after, ended_before, end_reason, mode, phases,
  prev_members, members_joined, members_left, members_restarted,
  partitions_kept, partitions_added, partitions_lost, partitions_unassigned, stickiness,
  assignment_skew, removed_by, coordinator, followed_coordinator_move, maybe_unobserved / 1e6 AS not_observed_s
FROM observed
ORDER BY began_before, cluster, group_id
