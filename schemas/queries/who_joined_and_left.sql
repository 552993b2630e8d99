-- Who joined and left each group?
-- Static or dynamic, and with how many partitions. A dynamic member that rejoins gets a new member id: it is a row
-- `left` and a row `joined` of one client. So is each member after a coordinator was lost. A static member
-- (group.instance.id) that restarted is a row `restarted` of the rebalance, or `static_restart` if there was none.
-- theme: groups
WITH came_and_went AS (
  SELECT coalesce(r.narrowed_before, m.began_before) AS began_before,
    coalesce(r.narrowed_after, r.began_after) AS began_after, m.cluster, m.group_id, r.generation, m.change,
    m.client_id, m.client_host, m.instance_id, m.member_id, m.prev_member_id,
    aggregate(m.before, 0, (sum, assigned) -> sum + size(assigned.partitions)) AS partitions_before,
    aggregate(m.after, 0, (sum, assigned) -> sum + size(assigned.partitions)) AS partitions_after
  FROM gold.rebalance_members m
  JOIN gold.rebalances r
    ON r.id = m.rebalance_id AND r.cluster_id = m.cluster_id AND r.cluster = m.cluster AND r.group_id = m.group_id
      AND r.began_before = m.began_before
  WHERE m.change IN ('joined', 'left', 'restarted')
    AND m.began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  UNION ALL
  SELECT began_before, began_after, cluster, group_id, generation, event, client_id, client_host, instance_id,
    member_id, prev_member_id, NULL, NULL
  FROM gold.group_events
  WHERE event = 'static_restart'
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
)

SELECT cluster, group_id, began_after, began_before, generation, change,
  CASE WHEN instance_id IS NULL THEN 'dynamic' ELSE 'static' END AS membership,
  client_id, client_host, instance_id, member_id, prev_member_id, partitions_before, partitions_after
FROM came_and_went
WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
ORDER BY began_before, cluster, group_id, change, client_id, client_host, member_id
