SELECT concat(what, '/', group_id, '/', began_before) AS id, group_id AS lane, what AS kind,
  0 AS weight, 1 AS size, 1 AS counted, began_after, began_before,
  CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
  group_id AS subject, concat_ws(' to ', before, after) AS details, CAST(NULL AS STRING) AS inferred
FROM gold.incident_timeline
WHERE cluster = :cluster AND startswith(what, 'group_behind')
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
