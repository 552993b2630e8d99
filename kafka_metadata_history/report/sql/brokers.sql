SELECT id, concat('broker ', broker_id) AS lane, worst_level AS kind,
  coalesce(nullif(array_position(
    array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), worst_level
  ), 0), 1) AS weight,
  partitions AS size, 1 AS counted, began_after, began_before, ended_after, ended_before,
  concat('broker ', broker_id, coalesce(concat(', rack ', rack), '')) AS subject,
  concat(partitions, IF(partitions = 1, ' partition', ' partitions'), ' lacked it') AS details,
  array_join(causes, ', ') AS inferred
FROM gold.broker_incidents
WHERE cluster = :cluster
  AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
UNION ALL
SELECT concat(what, '/', broker_id, '/', began_before), concat('broker ', broker_id), what,
  0, 0, 0, began_after, began_before, CAST(NULL AS TIMESTAMP), CAST(NULL AS TIMESTAMP),
  concat('broker ', broker_id),
  CASE WHEN what IN ('broker_rack_changed', 'broker_address_changed')
    THEN concat(coalesce(before, 'none'), ' to ', coalesce(after, 'none')) ELSE coalesce(after, before) END,
  inferred
FROM gold.incident_timeline
WHERE cluster = :cluster
  AND startswith(what, 'broker_')
  -- A broker that the first poll lists, or that the first snapshot has, did not come then.
  AND (what NOT IN ('broker_listed', 'broker_registered', 'broker_fenced') OR began_after IS NOT NULL)
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
