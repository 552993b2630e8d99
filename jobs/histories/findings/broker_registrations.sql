-- A broker that registers for the first time is fenced until it has caught up.
SELECT 'broker_missing' AS kind, cluster_id, cluster, broker_id, rack, array(broker_id) AS brokers, 'log' AS source,
  prev_sent_at AS began_after, valid_from AS began_before, last_seen_sent_at AS ended_after, valid_to AS ended_before,
  CASE WHEN NOT prev_is_fenced THEN coalesce(prev_in_controlled_shutdown, false) END AS is_controlled
FROM {silver.broker_registrations}
WHERE is_fenced AND prev_broker_epoch IS NOT NULL AND (valid_to IS NULL OR valid_to >= :since)
