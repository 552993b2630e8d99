SELECT 'pause' AS kind, cluster_id, cluster, group_id, 'log' AS source, min(topic) AS topic, count(*) AS partitions,
  max(pause_ms_min) AS number,
  min(last_commit_at) AS began_after, min(began_before) AS began_before,
  if(count(first_commit_at) = count(*), max(coalesce(last_commit_at, began_before)), NULL) AS ended_after,
  if(count(first_commit_at) = count(*), max(first_commit_at), NULL) AS ended_before
FROM {gold.rebalance_cost}
WHERE pause_ms_min > 0 AND (is_live OR coalesce(first_commit_at, ended_before) >= :since)
GROUP BY cluster_id, cluster, group_id, rebalance_id
UNION ALL
SELECT 'lag', cluster_id, cluster, group_id, 'log', min(topic), count(*), sum(lag_peak),
  min(began_before), min(coalesce(lag_peak_at, ended_before)),
  if(count(lag_back_before) = count(*), max(coalesce(lag_back_after, began_before)), NULL),
  if(count(lag_back_before) = count(*), max(lag_back_before), NULL)
FROM {gold.rebalance_cost}
WHERE lag_peak > lag_before AND (is_live OR lag_back_before >= :since)
GROUP BY cluster_id, cluster, group_id, rebalance_id
