-- Which partitions took longest to recover?
-- From the begin of a rebalance until the lag was what it was before, or more while it is not; where nobody asks for
-- lag, until the partition was committed again.
WITH costs AS (
  SELECT *, CAST(:until AS TIMESTAMP) AS at,
    -- A gap may end within the rebalance, and nobody has committed since.
    CASE WHEN lag_before IS NOT NULL THEN lag_back_before
      WHEN awaits_after IS NULL THEN first_commit_at END AS back_before,
    CASE WHEN lag_before IS NULL AND awaits_after IS NULL THEN first_commit_at
      WHEN lag_before IS NULL AND close_reason IS NULL THEN CAST(:until AS TIMESTAMP)
      WHEN lag_back_before IS NOT NULL AND lag_back_after IS NULL THEN began_before
      ELSE lag_back_after END AS back_after
  FROM gold.rebalance_cost
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
)

SELECT cluster, group_id, topic, `partition`, began_before,
  (unix_micros(coalesce(back_after, began_before)) - unix_micros(began_before)) / 1e6 AS seconds_min,
  CASE WHEN back_before <= at THEN (unix_micros(back_before) - unix_micros(began_before)) / 1e6 END AS seconds_max,
  lag_before, lag_peak,
  pause_ms_min, pause_ms_max, pause_unknown, reprocessed_min, reprocessed_max, lost_unread, close_reason
FROM costs
ORDER BY seconds_min DESC, cluster, group_id, topic, `partition`, began_before
