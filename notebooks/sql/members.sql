SELECT r.generation, r.ended_after AS began_after, r.ended_before AS began_before,
  coalesce(m.instance_id, concat_ws(' ', m.client_id, m.client_host)) AS member, m.change,
  aggregate(m.after, 0, (sum, assigned) -> sum + size(assigned.partitions)) AS assigned_partitions,
  array_sort(m.before) <> array_sort(m.after) AS other_partitions
FROM gold.rebalance_members m JOIN gold.rebalances r ON r.id = m.rebalance_id AND r.group_id = m.group_id
WHERE m.cluster = :cluster AND m.group_id = :group AND m.change <> 'left'
  AND r.ended_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
ORDER BY r.ended_before, member, m.member_id
