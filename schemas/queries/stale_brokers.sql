-- Which brokers answered clients from old metadata?
-- From when to when, and how far behind. A broker that is cut off from the controllers answers from its image, the
-- metadata that it had last.
SELECT cluster, broker_id, broker, began_after, began_before, ended_before, end_reason, duration_ms_min, duration_ms_max,
  partitions_behind, epochs_behind
FROM gold.stale_brokers
WHERE began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
ORDER BY began_before, cluster, broker_id
