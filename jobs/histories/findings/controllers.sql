-- The first one that is known, also after a part of the log was lost, was elected in the place of nobody. Polls may miss
-- some: by epochs so many at most. The view needs all terms to say how each ended. Nothing here asks for that, so Spark
-- reads terms that began since, and beside them no more than the epochs of the log's elections.
SELECT 'controller_elected' AS kind, cluster_id, cluster, nullif(prev_controller_id, -1) AS broker_id, source,
  CAST(if(source = 'log', 1, coalesce(controller_epoch - prev_controller_epoch, 1)) AS BIGINT) AS number,
  began_after, began_before, began_after AS ended_after, began_before AS ended_before
FROM {gold.controllers}
WHERE began_before >= :since AND controller_id >= 0 AND prev_controller_id IS NOT NULL
  AND coalesce(controller_epoch > prev_controller_epoch, TRUE)
