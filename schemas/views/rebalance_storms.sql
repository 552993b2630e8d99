-- Polls tell of a group until its log does: from there on what they told is hidden.
SELECT s.id, s.cluster_id, s.cluster, s.group_id, s.kind, s.source, s.client_id, s.client_host, s.began_before,
  s.last_before, s.rebalances, s.per_hour, s.updated_at
FROM {internal.rebalance_storms} s
LEFT JOIN (
  SELECT cluster_id, group_id, min(valid_from) AS logged_from
  FROM {gold.group_lives}
  WHERE source = 'log'
  GROUP BY cluster_id, group_id
) l ON l.cluster_id = s.cluster_id AND l.group_id = s.group_id
WHERE s.source = 'log' OR l.logged_from IS NULL OR s.began_before < l.logged_from
