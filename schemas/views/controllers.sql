-- The controllers' log has each election. Polls show who was active when they asked; with ZooKeeper they alone do.
WITH elected AS (
  SELECT cluster_id, cluster, poll, source, controller_id, controller_epoch, prev_controller_id, prev_controller_epoch,
    began_after, began_before
  FROM {gold.controller_changes}
  UNION ALL
  SELECT cluster_id, cluster, first_poll, 'polls', controller_id, quorum_epoch, prev_controller_id, prev_quorum_epoch,
    prev_sent_at, valid_from
  FROM {silver.quorum} q
  WHERE (controller_id IS DISTINCT FROM prev_controller_id OR quorum_epoch <> prev_quorum_epoch) AND NOT EXISTS (
    SELECT 1 FROM {gold.controller_changes} c
    WHERE c.cluster_id = q.cluster_id AND c.controller_epoch = q.quorum_epoch
  )
),

terms AS (
  SELECT *,
    lead(controller_id) OVER by_cluster AS next_controller_id,
    lead(began_after) OVER by_cluster AS next_after,
    lead(began_before) OVER by_cluster AS next_before
  FROM elected
  WINDOW by_cluster AS (PARTITION BY cluster_id, cluster ORDER BY poll)
)

SELECT cluster_id, cluster, controller_id, controller_epoch, prev_controller_id, prev_controller_epoch, poll, source,
  began_after, began_before,
  -- Clocks of controllers and of polls differ.
  CASE WHEN next_before IS NOT NULL THEN least(greatest(next_after, began_before), next_before) END AS ended_after,
  next_before AS ended_before,
  CASE
    WHEN next_controller_id = -1 THEN 'lost'
    WHEN next_controller_id = controller_id THEN 'elected_again'
    WHEN next_controller_id IS NOT NULL THEN 'another_elected'
  END AS end_reason
FROM terms
