-- Two replicas of a partition are in one rack, though there are as many racks as replicas.
WITH racks AS (
  SELECT cluster_id, broker_id, rack, count(DISTINCT rack) OVER (PARTITION BY cluster_id) AS racks
  FROM {silver.broker_snapshots}
  WHERE is_current AND rack IS NOT NULL
),

placed AS (
  SELECT cluster_id, cluster, replicas, count(*) AS partitions, max(valid_from) AS since,
    coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic
  FROM {silver.partition_snapshots}
  WHERE is_current AND size(replicas) > 1
  GROUP BY cluster_id, cluster, replicas
)

SELECT 'shared_rack' AS kind, cluster_id, cluster, min(topic) AS topic, sum(partitions) AS partitions,
  max(since) AS began_after, max(since) AS began_before
FROM (
  SELECT p.cluster_id, p.cluster, p.replicas, any_value(p.topic) AS topic, any_value(p.partitions) AS partitions,
    any_value(p.since) AS since
  FROM (SELECT *, explode(replicas) AS broker_id FROM placed) p
  JOIN racks r ON r.cluster_id = p.cluster_id AND r.broker_id = p.broker_id
  GROUP BY p.cluster_id, p.cluster, p.replicas
  HAVING count(DISTINCT r.rack) < size(p.replicas) AND count(*) = size(p.replicas) AND max(r.racks) >= size(p.replicas)
)
GROUP BY cluster_id, cluster
