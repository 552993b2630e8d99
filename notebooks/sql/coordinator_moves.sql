SELECT e.began_after, e.began_before, e.log_partition, e.prev_broker_id, e.broker_id,
  count(DISTINCT e.group_id) AS groups,
  count(DISTINCT r.group_id) AS groups_that_rebalanced, count(r.id) AS rebalances
FROM gold.group_events e LEFT JOIN gold.rebalances r
  ON r.coordinator_move_id = e.id AND r.cluster_id = e.cluster_id AND r.cluster = e.cluster AND r.group_id = e.group_id
WHERE e.event = 'coordinator_moved' AND e.cluster = :cluster
  AND e.began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (e.broker_id, e.prev_broker_id))
  AND (CAST(:group AS STRING) IS NULL OR e.group_id = :group)
GROUP BY e.began_after, e.began_before, e.log_partition, e.prev_broker_id, e.broker_id
ORDER BY e.began_before, e.log_partition
