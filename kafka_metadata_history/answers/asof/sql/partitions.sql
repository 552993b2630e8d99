-- Without a topic all of them, or those alone that may be offline, under-replicated or under min ISR.
-- A leader that is not shown (error 72, listener not found) is null, as is one that means nothing.
SELECT p.cluster, p.topic, p.partition, CASE WHEN p.error_code <> 72 OR p.leader <> -1 THEN p.leader END AS leader,
  p.leader_epoch, p.replicas, p.isr, p.valid_from AS since, e.elr, r.adding_replicas, r.removing_replicas,
  c.min_insync_replicas, c.unclean_leader_election_enable
FROM (
  SELECT * FROM silver.partition_snapshots
  WHERE {of_cluster} AND {then} AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
) p
LEFT JOIN (SELECT * FROM silver.topic_configs WHERE {of_cluster} AND {then}) c
  ON c.cluster_id = p.cluster_id AND c.topic = p.topic
LEFT JOIN (SELECT * FROM silver.reassignments WHERE {of_cluster} AND {then}) r
  ON r.cluster_id = p.cluster_id AND r.topic = p.topic AND r.partition = p.partition
LEFT JOIN (SELECT * FROM silver.partition_elr WHERE {of_cluster} AND {then}) e
  ON e.cluster_id = p.cluster_id AND e.topic = p.topic AND e.partition = p.partition
WHERE CAST(:topic AS STRING) IS NOT NULL OR NOT :only_not_well OR p.leader = -1 OR size(p.isr) < size(p.replicas)
  OR size(p.isr) < c.min_insync_replicas
ORDER BY p.cluster, p.topic, p.partition
