-- Up to when each cluster is recorded, whether its incidents are made, and which sources are read beside polls.
SELECT c.cluster,
  CASE WHEN c.told_by = 'log' THEN greatest(r.until, l.last_seen_at) ELSE greatest(r.until, c.last_seen_at) END AS until,
  coalesce(s.is_made, false) OR i.cluster IS NOT NULL AS is_made,
  l.cluster IS NOT NULL AS has_controllers_log,
  coalesce(s.has_coordinators_log, false) AS has_coordinators_log,
  coalesce(s.has_lag, false) AS has_lag
FROM internal.clusters c
LEFT JOIN silver.reach r ON r.cluster = c.cluster
LEFT JOIN internal.cluster_logs l ON l.cluster = c.cluster
LEFT JOIN (
  SELECT cluster, bool_or(history = 'incidents') AS is_made,
    bool_or(history = 'rebalance_history' AND coalesce(size(map_keys(positions)), 0) > 0) AS has_coordinators_log,
    bool_or(history = 'group_lag') AS has_lag
  FROM internal.state GROUP BY cluster
) s ON s.cluster = c.cluster
LEFT JOIN (SELECT DISTINCT cluster FROM gold.incidents) i ON i.cluster = c.cluster
ORDER BY c.cluster
