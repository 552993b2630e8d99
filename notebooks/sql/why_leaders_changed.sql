SELECT reason, count_if(leader <> prev_leader) AS seen,
  sum(changes_min) AS changes_min, CASE WHEN count(changes_max) = count(*) THEN sum(changes_max) END AS changes_max,
  count(DISTINCT topic, partition) AS partitions,
  count_if(unclean = 'proven') AS unclean_proven, count_if(unclean = 'suspected') AS unclean_suspected,
  max(leaderless_ms_min - not_observed_ms) AS longest_leaderless_ms_min,
  max(leaderless_ms_max) AS longest_leaderless_ms_max
FROM (
  -- Of the least, what nobody observed.
  SELECT l.*, coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
    unix_micros(least(gap.gap_end, l.began_after)) - greatest(unix_micros(gap.gap_start),
      unix_micros(l.began_after) - 1000 * l.leaderless_ms_min))), 0) / 1000 AS not_observed_ms
  FROM gold.leader_changes l
  LEFT JOIN silver.observed o
    ON o.cluster_id = l.cluster_id AND o.cluster = l.cluster AND o.history = 'leader_churn'
)
WHERE cluster = :cluster
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
GROUP BY reason
ORDER BY changes_min DESC, reason
