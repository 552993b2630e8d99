-- Which groups rebalanced because of a restart?
-- Of the restarts that restarts names: groups that rebalanced just after their coordinator had moved, from the first
-- broker that was lost until five minutes after the last one was back. That the move was the reason is inferred. pause
-- is the longest one; it takes offset commits of the coordinators' log.
-- theme: maintenance
WITH restarts AS (
  SELECT cluster_id, cluster, restart_id,
    min_by(began_after, step) AS began_after,
    min(began_before) AS began_before,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before,
    transform(array_sort(collect_list(struct(step, broker_id))), each -> each.broker_id) AS brokers
  FROM gold.restarts
  WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  GROUP BY cluster_id, cluster, restart_id
  HAVING CAST(:broker AS INT) IS NULL OR bool_or(broker_id = :broker)
)

SELECT s.cluster, s.began_after, s.began_before, s.brokers, r.group_id,
  count(*) AS rebalances,
  array_sort(array_distinct(flatten(collect_list(r.reasons)))) AS reasons,
  max(r.pause_ms_min) AS pause_ms_min,
  CASE WHEN count(r.pause_ms_max) = count(*) THEN max(r.pause_ms_max) END AS pause_ms_max
FROM restarts s
JOIN gold.rebalances r
  ON r.cluster_id = s.cluster_id AND r.followed_coordinator_move
    AND r.began_before >= s.began_before
    AND r.began_before <= coalesce(s.ended_before, CAST(:until AS TIMESTAMP)) + INTERVAL '5' MINUTE
WHERE s.began_before <= CAST(:until AS TIMESTAMP)
  AND (s.ended_before IS NULL OR s.ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:group AS STRING) IS NULL OR r.group_id = :group)
GROUP BY s.cluster, s.began_after, s.began_before, s.brokers, s.restart_id, r.group_id
ORDER BY s.began_before, s.cluster, r.group_id
