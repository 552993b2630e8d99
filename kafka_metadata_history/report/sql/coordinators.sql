SELECT id, concat(IF(prev_broker_id = -1, 'none', prev_broker_id), ' to ',
    IF(broker_id = -1, 'none', broker_id)) AS lane,
  'coordinator_moved' AS kind, 0 AS weight, 1 AS size, 1 AS counted, began_after, began_before,
  CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
  group_id AS subject,
  concat_ws(', ', concat('broker ', prev_broker_id, ' to ', broker_id),
    concat('__consumer_offsets-', log_partition)) AS details,
  CAST(NULL AS STRING) AS inferred
FROM gold.group_events
WHERE cluster = :cluster AND event = 'coordinator_moved'
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (broker_id, prev_broker_id))
