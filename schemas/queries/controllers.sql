-- Who was the active controller, from when to when, and how did it end?
-- By the controllers' log, else by polls (`enrich: quorum`; with ZooKeeper by each poll). Controller -1 is none. By
-- ended_before another one had been elected; the one before may have failed earlier, which nothing records. epochs_raised:
-- since the one before; more than one if polls missed an election, or votes that nobody won. times_active: of this
-- controller in the window.
-- theme: brokers
WITH terms AS (
  SELECT *, controller_epoch - prev_controller_epoch AS epochs_raised,
    count(*) OVER (PARTITION BY cluster_id, cluster, controller_id) AS times_active
  FROM gold.controllers
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
)

SELECT cluster, controller_id, controller_epoch, prev_controller_id, epochs_raised, began_after, began_before,
  CASE WHEN ended_before <= CAST(:until AS TIMESTAMP) THEN ended_after END AS ended_after,
  CASE WHEN ended_before <= CAST(:until AS TIMESTAMP) THEN ended_before END AS ended_before,
  CASE WHEN ended_before <= CAST(:until AS TIMESTAMP) THEN end_reason END AS end_reason,
  times_active, source
FROM terms
ORDER BY began_before, cluster, controller_epoch
