-- Which groups got another coordinator, and what then?
-- Why it moved (the leader's reason), and the rebalances after it. A move alone makes no group rebalance: what followed
-- one need not be its doing.
-- theme: groups
SELECT e.cluster, e.group_id, e.began_after, e.began_before, e.log_partition, e.prev_broker_id, e.broker_id,
  max(l.reason) AS move_reason,
  count(DISTINCT r.id) AS rebalances,
  min(coalesce(r.narrowed_before, r.began_before)) AS first_began_before,
  array_sort(array_distinct(flatten(collect_list(r.reasons)))) AS reasons
FROM gold.group_events e
LEFT JOIN gold.rebalances r
  ON r.coordinator_move_id = e.id AND r.cluster_id = e.cluster_id AND r.cluster = e.cluster AND r.group_id = e.group_id
LEFT JOIN gold.leader_changes l
  ON l.cluster_id = e.cluster_id AND l.topic = '__consumer_offsets' AND l.partition = e.log_partition
    AND l.began_before = e.began_before AND l.leader = e.broker_id
WHERE e.event = 'coordinator_moved'
  AND e.began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR e.cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (e.broker_id, e.prev_broker_id))
  AND (CAST(:group AS STRING) IS NULL OR e.group_id = :group)
GROUP BY e.cluster, e.group_id, e.began_after, e.began_before, e.log_partition, e.prev_broker_id, e.broker_id, e.id
ORDER BY e.began_before, e.cluster, e.group_id
