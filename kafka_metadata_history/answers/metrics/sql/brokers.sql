-- What each broker leads and replicates, the ISRs that it lacks, and the groups that it coordinates.
WITH partitions AS (
  SELECT p.cluster, p.leader, p.replicas,
    array_except(array_except(p.replicas, coalesce(r.adding_replicas, array())), p.isr) AS out
  FROM (SELECT * FROM silver.partition_snapshots WHERE is_current) p
  LEFT JOIN (SELECT * FROM silver.reassignments WHERE is_current) r
    ON r.cluster_id = p.cluster_id AND r.topic = p.topic AND r.partition = p.partition
)

SELECT cluster, broker_id, sum(leads) AS leads, sum(replicas) AS replicas, sum(out) AS out, sum(groups) AS groups
FROM (
  SELECT cluster, leader AS broker_id, 1 AS leads, 0 AS replicas, 0 AS out, 0 AS groups
  FROM partitions WHERE leader >= 0
  UNION ALL
  SELECT cluster, explode(replicas), 0, 1, 0, 0 FROM partitions
  UNION ALL
  SELECT cluster, explode(out), 0, 0, 1, 0 FROM partitions
  UNION ALL
  SELECT c.cluster, c.broker_id, 0, 0, 0, 1
  FROM gold.group_coordinators c
  JOIN (SELECT cluster_id, group_id FROM gold.group_lives WHERE is_live AND valid_to IS NULL) l
    ON l.cluster_id = c.cluster_id AND l.group_id = c.group_id
  WHERE c.valid_to IS NULL AND c.broker_id >= 0
)
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
