-- What did rebalances cost?
-- The longest pause of a partition, and of all partitions together lag and offsets that were consumed again, or given
-- back by who set them. Of partitions with offset commits that the coordinators' log has; lag takes the enrichment
-- `offsets`, too.
-- theme: groups
SELECT cluster, group_id, coalesce(narrowed_after, began_after) AS began_after,
  coalesce(narrowed_before, began_before) AS began_before,
  pause_ms_min, pause_ms_max, lag_before, lag_peak, reprocessed_min, reprocessed_max, reasons,
  generation, group_type, mode, ended_after, ended_before, lag_back_after, lag_back_before, lost_unread,
  silent_ms_max, partitions_committed, partitions_moved, members, coordinator, followed_coordinator_move
FROM gold.rebalances
WHERE partitions_committed IS NOT NULL
  AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)) AND lasts_until >= CAST(:since AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:topic AS STRING) IS NULL OR id IN (
    SELECT rebalance_id FROM gold.rebalance_cost
    WHERE topic = :topic AND began_before <= CAST(:until AS TIMESTAMP)
      AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
      AND (CAST(:group AS STRING) IS NULL OR group_id = :group)))
ORDER BY began_before, cluster, group_id
