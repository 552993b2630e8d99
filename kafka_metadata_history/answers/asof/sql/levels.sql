-- Partitions whose leader, ISR, replicas and min ISR are alike, counted. A replica that is being added is not out.
SELECT p.cluster, p.leader <> -1 OR p.error_code = 72 AS has_leader, size(p.isr) AS isr, size(p.replicas) AS replicas,
  c.min_insync_replicas,
  size(array_except(array_except(p.replicas, coalesce(r.adding_replicas, array())), p.isr)) > 0 AS is_any_out,
  count(*) AS partitions
FROM (SELECT * FROM silver.partition_snapshots WHERE {of_cluster} AND {then}) p
LEFT JOIN (SELECT * FROM silver.topic_configs WHERE {of_cluster} AND {then}) c
  ON c.cluster_id = p.cluster_id AND c.topic = p.topic
LEFT JOIN (SELECT * FROM silver.reassignments WHERE {of_cluster} AND {then}) r
  ON r.cluster_id = p.cluster_id AND r.topic = p.topic AND r.partition = p.partition
GROUP BY 1, 2, 3, 4, 5, 6
