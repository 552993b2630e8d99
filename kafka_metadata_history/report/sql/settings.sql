SELECT concat_ws('/', what, topic, partition, group_id, broker_id, before, after,
    began_before) AS id,
  replace(what, '_', ' ') AS lane,
  what AS kind, 0 AS weight, 1 AS size, 1 AS counted, began_after, began_before,
  CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
  coalesce(concat(topic, '-', partition), topic, group_id, concat('broker ', broker_id), 'cluster') AS subject,
  concat_ws(' to ', before, after) AS details, inferred
FROM gold.incident_timeline
WHERE cluster = :cluster
  AND (startswith(what, 'controller_') OR startswith(what, 'quorum_')
    OR startswith(what, 'config_') OR startswith(what, 'feature_')
    OR startswith(what, 'acl_') OR startswith(what, 'quota_')
    OR what IN ('partitions_added', 'replication_factor_changed'))
  -- So it was already when the log's history began.
  AND began_after IS NOT NULL
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
