-- Usable bytes are those of the last answer, if it came on the newest day of its cluster.
SELECT d.cluster, d.broker_id, d.log_dir, d.is_online, d.total_bytes,
  CASE WHEN d.is_online THEN s.usable_bytes END AS usable_bytes
FROM silver.log_dirs d
LEFT JOIN gold.storage s
  ON s.is_live AND s.level = 'log_dir' AND s.cluster_id = d.cluster_id AND s.cluster = d.cluster
    AND s.broker_id = d.broker_id AND s.log_dir = d.log_dir
WHERE d.is_current
ORDER BY d.cluster, d.broker_id, d.log_dir
