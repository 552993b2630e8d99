SELECT id, group_id AS lane, coalesce(get(reasons, 0), 'unknown') AS kind,
  0 AS weight, 1 AS size, 1 AS counted,
  coalesce(narrowed_after, began_after) AS began_after,
  coalesce(narrowed_before, began_before) AS began_before,
  ended_after, ended_before, group_id AS subject,
  concat_ws(', ',
    concat('generation ', coalesce(concat(prev_generation, ' to '), ''), generation),
    concat('members ', coalesce(concat(prev_members, ' to '), ''), members),
    concat(partitions_moved, ' partitions moved'), concat('coordinator ', coordinator),
    end_reason,
    concat('nobody consumed for ', coalesce(concat(pause_ms_min, ' to '), 'at most '),
      pause_ms_max, ' ms'),
    concat('lag ', lag_before, ' to ', lag_peak),
    concat('consumed again or given back: ', reprocessed_min,
      coalesce(concat(' to ', reprocessed_max), ' or more'))) AS details,
  array_join(reasons, ', ') AS inferred
FROM gold.rebalances
WHERE cluster = :cluster
  AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:topic AS STRING) IS NULL OR id IN (
    SELECT rebalance_id FROM gold.rebalance_topics
    WHERE topic = :topic AND cluster = :cluster AND began_before <= CAST(:until AS TIMESTAMP)))
UNION ALL
SELECT id, group_id, kind, 0, 0, 0, began_before, began_before, last_before, last_before,
  group_id, concat_ws(', ', concat(rebalances, ' rebalances'), concat('client ', client_id),
    concat('host ', client_host)),
  CAST(NULL AS STRING)
FROM gold.rebalance_storms
WHERE cluster = :cluster
  AND began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND CAST(:broker AS INT) IS NULL AND CAST(:topic AS STRING) IS NULL
