-- Which groups rebalanced within [:since, :until], when, for how long, why, and how much moved? :broker is the coordinator.
SELECT cluster, group_id, group_type, source, prev_generation, generation, incomplete, began_after, began_by, ended_after, ended_by,
  ended_as, duration_ms_min, duration_ms_max, reasons, mode, phases, prev_members, members, joined, left, restarted,
  kept, moved, added, lost, unassigned, stickiness, coordinator, followed_move
FROM gold.rebalances
WHERE began_by <= CAST(:until AS TIMESTAMP) AND (ended_by IS NULL OR ended_by >= CAST(:since AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  -- Some member had partitions of the topic before it or afterwards.
  AND (CAST(:topic AS STRING) IS NULL OR id IN (
    SELECT rebalance_id FROM gold.rebalance_members
    WHERE exists(concat(coalesce(before, array()), coalesce(after, array())), assigned -> assigned.topic = :topic)))
ORDER BY began_by, cluster, group_id
