-- Two replicas of a partition are in one rack, though there are as many racks as replicas. How long before its last
-- state that was so is not known.
WITH racks AS (
  SELECT cluster_id, broker_id, rack
  FROM {silver.broker_snapshots}
  WHERE is_current AND rack IS NOT NULL
),

of_clusters AS (
  SELECT cluster_id, count(DISTINCT rack) AS racks FROM racks GROUP BY cluster_id
),

placed AS (
  SELECT cluster_id, cluster, replicas, count(*) AS partitions, min(valid_from) AS since,
    coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic
  FROM {silver.partition_snapshots}
  WHERE is_current AND size(replicas) > 1
  GROUP BY cluster_id, cluster, replicas
),

shared AS (
  SELECT p.cluster_id, p.cluster, p.replicas, min(p.topic) AS topic, min(p.partitions) AS partitions, min(p.since) AS since
  FROM (SELECT *, explode(replicas) AS broker_id FROM placed) p
  JOIN racks r ON r.cluster_id = p.cluster_id AND r.broker_id = p.broker_id
  JOIN of_clusters c ON c.cluster_id = p.cluster_id
  GROUP BY p.cluster_id, p.cluster, p.replicas
  HAVING count(DISTINCT r.rack) < size(p.replicas) AND count(*) = size(p.replicas)
    AND max(c.racks) >= size(p.replicas)
)

SELECT 'shared_rack' AS kind, cluster_id, cluster, min(topic) AS topic, sum(partitions) AS partitions,
  min(since) AS began_before
FROM shared
GROUP BY cluster_id, cluster
