-- broker_id: the coordinator that its group had until a move just before.
SELECT 'rebalance' AS kind, r.cluster_id, r.cluster, max_by(m.prev_leader, m.began_before) AS broker_id, r.group_id,
  r.topic, r.source, r.began_after, r.began_before, r.ended_after, r.ended_before
FROM (
  SELECT cluster_id, cluster, group_id, source, log_partition, get(subscribed, 0) AS topic, began_after, began_before,
    ended_after, ended_before
  FROM {internal.rebalances} WHERE ended_before IS NULL OR ended_before >= :since
  UNION ALL
  SELECT cluster_id, cluster, group_id, 'polls', NULL, NULL, began_after, began_before, NULL, ended_before
  FROM {internal.rebalance_begins} WHERE ended_before IS NULL OR ended_before >= :since
) r
LEFT JOIN {silver.coordinators} m
  ON m.is_move AND m.prev_leader >= 0 AND m.began_before >= :since
    AND m.cluster_id = r.cluster_id AND m.log_partition = r.log_partition
    AND r.began_before BETWEEN m.began_before - INTERVAL '5' SECOND AND m.began_before + INTERVAL '2' MINUTE
GROUP BY r.cluster_id, r.cluster, r.group_id, r.topic, r.source, r.began_after, r.began_before, r.ended_after,
  r.ended_before
