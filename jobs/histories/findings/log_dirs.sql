-- Directories of a broker that failed, each as its broker told it. It was online when that broker last told so, also if
-- the broker was gone meanwhile.
SELECT 'log_dir_failed' AS kind, cluster_id, cluster, broker_id, array(broker_id) AS brokers, count(*) AS number,
  began_after, valid_from AS began_before, last_seen_sent_at AS ended_after, valid_to AS ended_before
FROM (
  SELECT *,
    max(IF(is_online, last_seen_sent_at, NULL)) OVER (
      PARTITION BY cluster_id, cluster, broker_id, log_dir ORDER BY first_poll ROWS UNBOUNDED PRECEDING
    ) AS began_after
  FROM {silver.log_dirs}
)
WHERE NOT is_online AND (valid_to IS NULL OR valid_to >= :since)
GROUP BY cluster_id, cluster, broker_id, began_after, valid_from, last_seen_sent_at, valid_to
