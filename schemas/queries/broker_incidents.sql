-- What happened to brokers within [:since, :until]: down, hung, lagging? How bad did it get, and who else of the rack was hit?
WITH chosen AS (
  SELECT *
  FROM gold.broker_incidents
  WHERE began_by <= CAST(:until AS TIMESTAMP) AND (ended_by IS NULL OR ended_by >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
)

SELECT i.cluster, i.broker_id, i.rack, i.began_after, i.began_by, i.ended_by, i.duration_ms_min, i.duration_ms_max, i.partitions,
  i.causes, i.lowest_level,
  -- Brokers with an incident that went on at the same time.
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack = i.rack) AS others_of_its_rack,
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack IS DISTINCT FROM i.rack) AS others_elsewhere
FROM chosen i
LEFT JOIN gold.broker_incidents o
  ON o.cluster_id = i.cluster_id AND o.broker_id <> i.broker_id
    AND (i.ended_by IS NULL OR o.began_by <= i.ended_by) AND (o.ended_by IS NULL OR o.ended_by >= i.began_by)
GROUP BY ALL
ORDER BY began_by, cluster, broker_id
