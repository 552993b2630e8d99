-- Who was the active controller, from when to when?
-- The controllers' log tells; where it has no election of that epoch, polls (enrich: quorum; with ZooKeeper each poll).
-- By ended_before another one had been elected; the one before may have failed earlier.
-- theme: brokers
WITH elected AS (
  SELECT cluster_id, cluster, poll, controller_id, controller_epoch, prev_controller_id, began_after, began_before
  FROM gold.controller_changes
  UNION ALL
  SELECT cluster_id, cluster, first_poll, controller_id, quorum_epoch, prev_controller_id, prev_sent_at, valid_from
  FROM silver.quorum q
  WHERE (controller_id IS DISTINCT FROM prev_controller_id OR quorum_epoch <> prev_quorum_epoch) AND NOT EXISTS (
    SELECT 1 FROM gold.controller_changes c
    WHERE c.cluster_id = q.cluster_id AND c.controller_epoch = q.quorum_epoch
  )
),

terms AS (
  SELECT *, lead(began_before) OVER (PARTITION BY cluster_id ORDER BY poll) AS ended_before
  FROM elected
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
)

SELECT cluster, controller_id, controller_epoch, prev_controller_id, began_after, began_before, ended_before
FROM terms
WHERE ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)
ORDER BY began_before, cluster, controller_epoch
