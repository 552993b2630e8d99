-- How far each cluster is known, and who tells now.
SELECT r.cluster, r.silver_from AS since,
  CASE WHEN c.told_by = 'log' THEN greatest(r.until, l.last_seen_at) ELSE greatest(r.until, c.last_seen_at) END AS until
FROM silver.reach r
JOIN internal.clusters c ON c.cluster = r.cluster
LEFT JOIN internal.cluster_logs l ON l.cluster = r.cluster
ORDER BY r.cluster
