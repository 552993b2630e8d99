SELECT 'crash_loop' AS kind, cluster_id, cluster, group_id, source, sum(rebalances) AS number,
  min(began_before) AS began_after, min(began_before) AS began_before,
  if(max(is_live), NULL, max(last_before)) AS ended_after, if(max(is_live), NULL, max(last_before)) AS ended_before
FROM {internal.rebalance_storms}
WHERE kind = 'crash_loop' AND (is_live OR last_before >= :since)
GROUP BY cluster_id, cluster, group_id, source, id
