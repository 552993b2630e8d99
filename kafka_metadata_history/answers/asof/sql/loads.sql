-- How many partitions each broker replicates, leads, and should lead.
SELECT cluster, broker_id, count(*) AS replicates, count_if(leader = broker_id) AS leads,
  count_if(get(replicas, 0) = broker_id) AS preferred_for
FROM (
  SELECT cluster, leader, replicas, explode(replicas) AS broker_id
  FROM silver.partition_snapshots WHERE {of_cluster} AND {then}
)
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
