SELECT cluster, group_id, lag_max
FROM gold.group_lag
WHERE valid_to IS NULL AND lag_max IS NOT NULL
ORDER BY lag_max DESC, cluster, group_id
