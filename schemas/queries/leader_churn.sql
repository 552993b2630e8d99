-- How often, and why, did leaders of topics change?
-- Seen changes, and hidden ones, which the leader epoch alone shows. Epochs that rose under one leader, by ISRs that
-- shrank (inferred) or by one step, are no changes of it.
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
  sum(leaderless_ms_min) / 1000 AS leaderless_s_min,
  CASE WHEN count(leaderless_ms_max) = count(*) THEN sum(leaderless_ms_max) / 1000 END AS leaderless_s_max
FROM gold.leader_changes
WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
GROUP BY cluster, topic
ORDER BY changes_min DESC, cluster, topic
