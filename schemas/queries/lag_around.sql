-- How far behind was a group around its rebalances?
-- From five minutes before a rebalance until it was over for ten, or the next one began: each change of the group's
-- lag, at least and at most. not_consumed_max and held_up_min: what of lag_max a consumer with read_committed could
-- read, and what an open transaction held up. Lag takes the enrichment `offsets`.
-- theme: groups
WITH rebalances AS (
  SELECT cluster_id, cluster, group_id, generation, reasons, coordinator, began_before, ended_before, pause_ms_min,
    pause_ms_max,
    lead(began_before) OVER (PARTITION BY cluster_id, cluster, group_id ORDER BY began_before) AS next_before
  FROM gold.rebalances
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
)

SELECT r.cluster, r.group_id, r.began_before,
  (unix_micros(l.valid_from) - unix_micros(r.began_before)) / 1e6 AS seconds_after,
  l.lag_min, l.lag_max, l.partitions_without_progress, l.burrow_status, r.reasons,
  r.generation, r.ended_before, r.pause_ms_min, r.pause_ms_max, l.valid_from, l.valid_to, l.not_consumed_max,
  l.held_up_min
FROM rebalances r
JOIN gold.group_lag l ON l.cluster_id = r.cluster_id AND l.cluster = r.cluster AND l.group_id = r.group_id
WHERE (CAST(:broker AS INT) IS NULL OR r.coordinator = :broker)
  -- Of the window alone, so that files of before and afterwards are skipped.
  AND (l.valid_to IS NULL OR l.valid_to >= CAST(:since AS TIMESTAMP) - INTERVAL '5' MINUTE)
  AND l.valid_from <= CAST(:until AS TIMESTAMP)
  AND (l.valid_to IS NULL OR l.valid_to >= r.began_before - INTERVAL '5' MINUTE)
  AND l.valid_from <= least(
    coalesce(r.ended_before, r.began_before) + INTERVAL '10' MINUTE,
    coalesce(r.next_before, CAST(:until AS TIMESTAMP)),
    CAST(:until AS TIMESTAMP))
ORDER BY r.began_before, r.cluster, r.group_id, l.valid_from
