-- Which brokers had the most incidents?
-- And how long were they missing from ISRs?
SELECT cluster, broker_id, max_by(rack, began_before) AS rack,
  count(*) AS incidents,
  count_if(ended_before IS NULL) AS going_on,
  sum(partitions) AS partitions_hit,
  sum(duration_ms_min) / 1000 AS seconds_min,
  array_sort(array_distinct(flatten(collect_list(causes)))) AS causes,
  max(began_before) AS last_began_before
FROM gold.broker_incidents
WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
GROUP BY cluster, broker_id
ORDER BY incidents DESC, partitions_hit DESC, cluster, broker_id
