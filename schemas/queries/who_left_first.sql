-- Which brokers left in-sync replicas, in which order?
-- And of how many partitions at a time.
SELECT cluster, began_after, began_before, broker_id, rack,
  count(*) AS partitions,
  array_sort(collect_set(topic)) AS topics,
  array_sort(collect_set(cause)) AS causes,
  count_if(is_flapping) AS flapping,
  min(duration_ms_min) AS shortest_ms_min,
  -- Null while one of them is still out.
  CASE WHEN count_if(ended_before IS NULL) = 0 THEN max(duration_ms_max) END AS longest_ms_max
FROM gold.isr_changes
WHERE change = 'left' AND array_contains(replicas, broker_id)
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
GROUP BY cluster, began_after, began_before, broker_id, rack
ORDER BY began_before, partitions DESC, cluster, broker_id
