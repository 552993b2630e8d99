SELECT 'reassignment' AS kind, cluster_id, cluster, brokers, min(topic) AS topic, count(*) AS partitions,
  if(max(from_offset) IS NULL, 'polls', 'log') AS source, prev_sent_at AS began_after, valid_from AS began_before,
  last_seen_sent_at AS ended_after, valid_to AS ended_before
FROM (
  SELECT *, array_sort(array_union(adding_replicas, removing_replicas)) AS brokers
  FROM {silver.reassignments}
  WHERE valid_to IS NULL OR valid_to >= :since
)
GROUP BY cluster_id, cluster, brokers, prev_sent_at, valid_from, last_seen_sent_at, valid_to
