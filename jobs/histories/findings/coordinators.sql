SELECT 'coordinator_moved' AS kind, cluster_id, cluster, prev_leader AS broker_id,
  array_sort(array_union(array(prev_leader), collect_set(CASE WHEN leader >= 0 THEN leader END))) AS brokers,
  count(*) AS partitions, source,
  began_after, began_before, began_after AS ended_after, began_before AS ended_before
FROM {silver.coordinators}
WHERE is_move AND prev_leader >= 0 AND began_before >= :since
GROUP BY cluster_id, cluster, prev_leader, source, began_after, began_before
