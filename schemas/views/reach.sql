SELECT s.cluster_id, s.cluster,
  greatest(s.began, r.silver_since) AS silver_from,
  greatest(s.began, r.gold_since) AS gold_from,
  p.done_at AS until
FROM (
  SELECT cluster_id, cluster, min(valid_from) AS began FROM {silver.cluster_snapshots} GROUP BY cluster_id, cluster
) s
LEFT JOIN {internal.clusters} p ON p.cluster = s.cluster
CROSS JOIN (
  SELECT max(CASE WHEN history = 'retention of silver' THEN done_at END) AS silver_since,
    max(CASE WHEN history = 'retention of gold' THEN done_at END) AS gold_since
  FROM {internal.state}
) r
