SELECT 'controller_elected' AS kind, cluster_id, cluster, prev_controller_id AS broker_id, source,
  CAST(1 AS BIGINT) AS number,
  began_after, began_before, began_after AS ended_after, began_before AS ended_before
FROM {gold.controller_changes}
WHERE began_before >= :since AND prev_controller_epoch IS NOT NULL
