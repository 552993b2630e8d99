SELECT generation, coalesce(narrowed_after, began_after) AS began_after,
  coalesce(narrowed_before, began_before) AS began_before, ended_after, ended_before, reasons, members,
  partitions_moved, coordinator
FROM gold.rebalances
WHERE cluster = :cluster AND group_id = :group
  AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
ORDER BY began_before
