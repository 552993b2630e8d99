SELECT 'broker_missing' AS kind, cluster_id, cluster, broker_id, rack, array(broker_id) AS brokers,
  last_seen_sent_at AS began_after, valid_to AS began_before, back_after AS ended_after, back_before AS ended_before
FROM (
  SELECT *,
    lead(prev_sent_at) OVER (PARTITION BY cluster_id, cluster, broker_id ORDER BY first_poll) AS back_after,
    lead(valid_from) OVER (PARTITION BY cluster_id, cluster, broker_id ORDER BY first_poll) AS back_before
  FROM {silver.broker_snapshots}
)
WHERE end_reason = 'gone' AND (back_before IS NULL OR back_before >= :since)
