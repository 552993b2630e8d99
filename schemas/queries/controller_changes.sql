-- Who was the active controller, from when to when?
-- The controllers' log alone tells. By ended_before another one had been elected; the one before may have failed
-- earlier.
-- theme: brokers
WITH terms AS (
  SELECT *, lead(began_before) OVER (PARTITION BY cluster_id ORDER BY poll) AS ended_before
  FROM gold.controller_changes
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
)

SELECT cluster, controller_id, controller_epoch, prev_controller_id, began_after, began_before, ended_before
FROM terms
WHERE ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)
ORDER BY began_before, cluster, controller_epoch
