SELECT began_after, began_before, what, broker_id, count(*) AS rows, count(DISTINCT topic) AS topics,
  min_by(concat(topic, '-', partition), concat(topic, '-', lpad(CAST(partition AS STRING), 6, '0'))) AS example,
  min_by(before, concat(topic, '-', lpad(CAST(partition AS STRING), 6, '0'))) AS before,
  min_by(after, concat(topic, '-', lpad(CAST(partition AS STRING), 6, '0'))) AS after,
  array_sort(collect_set(inferred)) AS inferred
FROM gold.incident_timeline
WHERE cluster = :cluster AND group_id IS NULL
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic OR topic IS NULL)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
GROUP BY ALL
ORDER BY began_before, what, broker_id
