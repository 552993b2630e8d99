-- A single replica is left in the ISR: broker_id.
SELECT 'one_in_sync' AS kind, cluster_id, cluster, get(isr, 0) AS broker_id, isr AS brokers,
  coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic, count(*) AS partitions,
  if(from_offset IS NULL, 'polls', 'log') AS source, prev_sent_at AS began_after, valid_from AS began_before,
  CASE WHEN valid_to IS NOT NULL THEN last_seen_sent_at END AS ended_after, valid_to AS ended_before
FROM {silver.partition_snapshots}
WHERE size(isr) = 1 AND size(replicas) > 1 AND (is_current OR valid_to >= :since)
GROUP BY cluster_id, cluster, isr, if(from_offset IS NULL, 'polls', 'log'), prev_sent_at, valid_from,
  CASE WHEN valid_to IS NOT NULL THEN last_seen_sent_at END, valid_to
