-- Which brokers were fenced, or in a controlled shutdown?
-- From when to when; the controllers' log alone tells. Clients are not shown a broker that is fenced. Stretches that
-- last count up to the window's end.
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
  SELECT cluster, broker_id, state,
    min_by(prev_sent_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN last_seen_sent_at END, first_poll) AS ended_after,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN valid_to END, first_poll) AS ended_before
  FROM (SELECT *, count_if(is_first) OVER (PARTITION BY cluster_id, broker_id ORDER BY first_poll) AS stretch FROM marked)
  WHERE state IS NOT NULL
  GROUP BY cluster, broker_id, state, cluster_id, stretch
)

SELECT cluster, broker_id, state, began_after, began_before, ended_before,
  (unix_micros(coalesce(ended_after, CAST(:until AS TIMESTAMP))) - unix_micros(began_before)) / 1e6 AS seconds_min,
  (unix_micros(coalesce(ended_before, CAST(:until AS TIMESTAMP))) - unix_micros(began_after)) / 1e6 AS seconds_max
FROM stretches
WHERE ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)
ORDER BY began_before, cluster, broker_id
