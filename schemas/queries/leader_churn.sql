-- How often, and why, did leaders of topics change?
-- Seen changes, and hidden ones, which the leader epoch alone shows. Epochs that rose under one leader, by ISRs that
-- shrank (inferred) or by one step, are no changes of it. leaderless_s is of changes that ended a time without a
-- leader; time_at_level has what lasts, too. not_observed_s is how much of the most nobody observed: none of it is in
-- the least.
-- theme: partitions
WITH spans AS (
  SELECT *,
    -- Both bounds of a time without a leader have a begin and an end of their own.
    timestamp_micros(unix_micros(coalesce(began_after, began_before)) - 1000 * coalesce(leaderless_ms_min, 0))
      AS surely_from,
    coalesce(began_after, began_before) AS surely_until,
    timestamp_micros(unix_micros(began_before) - 1000 * coalesce(leaderless_ms_max, 0)) AS maybe_from,
    began_before AS maybe_until
  FROM gold.leader_changes
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
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
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'leader_churn'
)

SELECT cluster, topic,
  count(DISTINCT partition) AS partitions,
  count_if(leader <> prev_leader) AS seen,
  sum(changes_min) AS changes_min,
  -- Null where the epochs of one of them cannot be trusted.
  CASE WHEN count(changes_max) = count(*) THEN sum(changes_max) END AS changes_max,
  count_if(reason = 'failover') AS failover,
  count_if(reason = 'preferred') AS preferred,
  count_if(reason = 'reassignment') AS reassignment,
  count_if(reason = 'offline') AS offline,
  count_if(reason = 'recovery') AS recovery,
  count_if(reason = 'unknown') AS unknown,
  sum(leaderless_ms_min - surely_unobserved / 1000) / 1000 AS leaderless_s_min,
  CASE WHEN count(leaderless_ms_max) = count(*) THEN sum(leaderless_ms_max) / 1000 END AS leaderless_s_max,
  sum(maybe_unobserved) / 1e6 AS not_observed_s
FROM observed
GROUP BY cluster, topic
ORDER BY changes_min DESC, cluster, topic
