-- Of each broker the replicas that are not in the ISR, without those that a reassignment adds, and the groups that it
-- coordinates.
SELECT cluster, broker_id, sum(out) AS out, sum(groups) AS groups
FROM (
  SELECT cluster, explode(out) AS broker_id, 1 AS out, 0 AS groups
  FROM (
    SELECT p.cluster, array_except(array_except(p.replicas, coalesce(r.adding_replicas, array())), p.isr) AS out
    FROM (SELECT * FROM silver.partition_snapshots WHERE is_current) p
    LEFT JOIN (SELECT * FROM silver.reassignments WHERE is_current) r
      ON r.cluster_id = p.cluster_id AND r.topic = p.topic AND r.partition = p.partition
  )
  UNION ALL
  SELECT c.cluster, c.broker_id, 0, 1
  FROM gold.group_coordinators c
  JOIN (SELECT cluster_id, group_id FROM gold.group_lives WHERE is_live AND valid_to IS NULL) l
    ON l.cluster_id = c.cluster_id AND l.group_id = c.group_id
  WHERE c.valid_to IS NULL AND c.broker_id >= 0
)
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
