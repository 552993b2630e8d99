-- Since when each source has told of a cluster; up to when the controllers' log is known.
SELECT s.cluster, s.source, min(s.since) AS since,
  CASE WHEN s.source = 'log' THEN max(l.last_seen_at) END AS until
FROM (
  SELECT cluster, 'log' AS source, valid_from AS since FROM silver.features WHERE {of_cluster}
  UNION ALL
  SELECT cluster, 'log', valid_from FROM silver.broker_registrations WHERE {of_cluster}
  UNION ALL
  SELECT cluster, 'configs', valid_from FROM silver.topic_configs WHERE {of_cluster}
  UNION ALL
  SELECT cluster, 'groups', valid_from FROM gold.group_lives WHERE {of_cluster}
  UNION ALL
  SELECT cluster, 'groups', valid_from FROM silver.group_snapshots WHERE {of_cluster}
) s
LEFT JOIN internal.cluster_logs l ON l.cluster = s.cluster
GROUP BY s.cluster, s.source
