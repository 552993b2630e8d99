SELECT cluster, broker_id, log_dir, is_online, total_bytes, usable_bytes
FROM silver.log_dirs
WHERE is_current
ORDER BY cluster, broker_id, log_dir
