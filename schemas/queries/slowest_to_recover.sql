-- Which partitions took longest to recover?
-- From the begin of a rebalance until the lag was what it was before, or more while it is not; where nobody asks for
-- lag, until the partition was committed again. not_observed_s is for how many of the seconds nobody
-- observed that: none of them is in the least.
-- theme: groups
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
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(back_after, began_before) AS surely_until,
    began_before AS maybe_from,
    -- Of what is over, and was not seen to be back, nothing more is said.
    CASE WHEN back_before <= at THEN back_before
      WHEN close_reason IS NULL OR back_before IS NOT NULL THEN at
      ELSE coalesce(back_after, began_before) END AS maybe_until
  FROM costs
),

observed AS (
  SELECT s.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM spans s
  LEFT JOIN silver.observed o
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster
      AND o.history = IF(s.lag_before IS NULL, 'group_log', 'group_lag')
)

SELECT cluster, group_id, topic, `partition`, began_before,
  (unix_micros(surely_until) - unix_micros(surely_from) - surely_unobserved) / 1e6 AS seconds_min,
  CASE WHEN back_before <= at THEN (unix_micros(back_before) - unix_micros(began_before)) / 1e6 END AS seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s,
  lag_before, lag_peak,
  pause_ms_min, pause_ms_max, pause_unknown, reprocessed_min, reprocessed_max, lost_unread, close_reason
FROM observed
ORDER BY seconds_min DESC, cluster, group_id, topic, `partition`, began_before
