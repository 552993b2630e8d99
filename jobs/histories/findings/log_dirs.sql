-- Directories of a broker that failed, each as its broker told it.
SELECT 'log_dir_failed' AS kind, cluster_id, cluster, broker_id, array(broker_id) AS brokers, count(*) AS number,
  prev_sent_at AS began_after, valid_from AS began_before, last_seen_sent_at AS ended_after, valid_to AS ended_before
FROM {silver.log_dirs}
WHERE NOT is_online AND (valid_to IS NULL OR valid_to >= :since)
GROUP BY cluster_id, cluster, broker_id, prev_sent_at, valid_from, last_seen_sent_at, valid_to
