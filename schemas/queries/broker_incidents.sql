-- What happened to brokers within [:since, :until]: down, hung, lagging? How bad did it get, and who else of the rack was hit?
WITH chosen AS (
  SELECT *
  FROM gold.broker_incidents
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
)

SELECT i.cluster, i.broker_id, i.rack, i.began_after, i.began_before, i.duration_ms_min, i.duration_ms_max,
  i.partitions, i.worst_level, i.causes, i.ended_before,
  -- Brokers with an incident that went on at the same time.
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack = i.rack) AS others_of_its_rack,
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack IS DISTINCT FROM i.rack) AS others_elsewhere
FROM chosen i
LEFT JOIN gold.broker_incidents o
  ON o.cluster_id = i.cluster_id AND o.broker_id <> i.broker_id
    AND (i.ended_before IS NULL OR o.began_before <= i.ended_before)
    AND (o.ended_before IS NULL OR o.ended_before >= i.began_before)
GROUP BY ALL
ORDER BY began_before, cluster, broker_id
