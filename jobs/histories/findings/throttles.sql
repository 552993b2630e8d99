-- A throttle of replication is set, and nothing is reassigned. topic: the name of the setting.
SELECT 'throttle_left' AS kind, cluster_id, cluster, name AS topic, count(*) AS number, 'log' AS source,
  max(valid_from) AS began_after, max(valid_from) AS began_before
FROM {silver.configs}
WHERE is_current AND name LIKE '%replication.throttled.%'
  AND cluster_id NOT IN (SELECT cluster_id FROM {silver.reassignments} WHERE is_current)
GROUP BY cluster_id, cluster, name
