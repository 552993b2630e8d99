-- Which groups rebalanced, how long, why, how much moved?
-- --broker is the coordinator. Of classic groups the log tells a rebalance at its end: where polls saw it begin, that
-- is when it began.
SELECT cluster, group_id, generation,
  coalesce(narrowed_after, began_after) AS began_after, coalesce(narrowed_before, began_before) AS began_before,
  duration_ms_min, duration_ms_max, reasons, members, partitions_moved,
  group_type, source, prev_generation, skipped_generations, ended_after, ended_before, end_reason, mode, phases,
  prev_members, members_joined, members_left, members_restarted,
  partitions_kept, partitions_added, partitions_lost, partitions_unassigned, stickiness,
  coordinator, followed_coordinator_move
FROM gold.rebalances
WHERE began_before <= CAST(:until AS TIMESTAMP) AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:topic AS STRING) IS NULL OR id IN (
    SELECT rebalance_id FROM gold.rebalance_topics
    WHERE topic = :topic AND began_before <= CAST(:until AS TIMESTAMP)
      AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
      AND (CAST(:group AS STRING) IS NULL OR group_id = :group)))
ORDER BY began_before, cluster, group_id
