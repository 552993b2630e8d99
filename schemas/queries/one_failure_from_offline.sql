-- Which partitions had a single in-sync replica left within [:since, :until], for how long, and whom did they lack?
SELECT cluster, topic, partition, began_after, began_before, ended_before, duration_ms_min, duration_ms_max, brokers_out
FROM gold.isr_episodes
WHERE level = 'under_replicated' AND smallest_isr = 1
  AND began_before <= CAST(:until AS TIMESTAMP) AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
ORDER BY began_before, cluster, topic, partition
