SELECT id,
  concat_ws(', ', reason, CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END) AS lane,
  CASE WHEN unclean <> 'no' THEN 'unclean' ELSE reason END AS kind,
  CASE WHEN unclean <> 'no' THEN 2 WHEN reason = 'offline' THEN 1 ELSE 0 END AS weight,
  changes_min AS size, 1 AS counted, began_after, began_before,
  CAST(NULL AS TIMESTAMP) AS ended_after, CAST(NULL AS TIMESTAMP) AS ended_before,
  concat(topic, '-', partition) AS subject,
  concat_ws(', ', concat('leader ', prev_leader, ' to ', leader),
    concat('epoch ', prev_leader_epoch, ' to ', leader_epoch),
    concat('ISR {', array_join(prev_isr, ','), '} to {', array_join(isr, ','), '}')) AS details,
  concat_ws(', ', reason,
    CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END) AS inferred
FROM gold.leader_changes
WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
