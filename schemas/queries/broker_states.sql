-- Which brokers were fenced, or in a controlled shutdown?
-- From when to when; the controllers' log alone tells. Clients are not shown a broker that is fenced. A stretch
-- that lasts can have lasted up to the window's end. not_observed_s is how much of the most nobody observed: none of it
-- is in the least.
-- theme: brokers
WITH states AS (
  SELECT *, CASE WHEN is_fenced THEN 'fenced' WHEN in_controlled_shutdown THEN 'controlled_shutdown' END AS state
  FROM silver.broker_registrations
  WHERE valid_from <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
),

marked AS (
  SELECT *,
    -- Another registration in the same state follows without a gap.
    lag(state) OVER by_broker IS DISTINCT FROM state
      OR lag(superseded_poll) OVER by_broker IS DISTINCT FROM first_poll AS is_first
  FROM states
  WINDOW by_broker AS (PARTITION BY cluster_id, broker_id ORDER BY first_poll)
),

stretches AS (
  SELECT cluster_id, cluster, broker_id, state,
    min_by(prev_sent_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN last_seen_sent_at END, first_poll) AS ended_after,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN valid_to END, first_poll) AS ended_before
  FROM (SELECT *, count_if(is_first) OVER (PARTITION BY cluster_id, broker_id ORDER BY first_poll) AS stretch FROM marked)
  WHERE state IS NOT NULL
  GROUP BY cluster, broker_id, state, cluster_id, stretch
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM stretches
  WHERE ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)
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
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'cluster_log'
)

SELECT cluster, broker_id, state, began_after, began_before, ended_before,
  (unix_micros(surely_until) - unix_micros(surely_from) - surely_unobserved) / 1e6 AS seconds_min,
  CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s
FROM observed
ORDER BY began_before, cluster, broker_id
