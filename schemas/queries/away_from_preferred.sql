-- How long did others lead what a broker should lead?
-- Stretches in which others led a partition that prefers the broker. not_observed_s is for how many seconds of it,
-- up to the window's end, nobody observed that.
-- theme: partitions
WITH turns AS (
  SELECT *, led_elsewhere > 0 AND NOT coalesce(lag(led_elsewhere > 0) OVER by_broker, false) AS begins
  FROM gold.leader_balance
  WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
  WINDOW by_broker AS (PARTITION BY cluster_id, broker_id ORDER BY poll)
),

stretches AS (
  SELECT *, count_if(begins) OVER (PARTITION BY cluster_id, broker_id ORDER BY poll) AS stretch
  FROM turns
),

spans AS (
  SELECT cluster_id, cluster, broker_id,
    min(valid_from) AS since,
    CASE WHEN count_if(valid_to IS NULL) = 0 THEN max(valid_to) END AS until,
    max(led_elsewhere) AS led_elsewhere_most,
    max(imbalance) AS imbalance_worst
  FROM stretches
  WHERE led_elsewhere > 0
  GROUP BY cluster_id, cluster, broker_id, stretch
)

SELECT s.cluster, s.broker_id, s.since, s.until, s.led_elsewhere_most, s.imbalance_worst,
  coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
    unix_micros(least(gap.gap_end, coalesce(s.until, CAST(:until AS TIMESTAMP))))
      - unix_micros(greatest(gap.gap_start, s.since)))), 0) / 1e6 AS not_observed_s
FROM spans s
LEFT JOIN silver.observed o
  ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'leader_churn'
WHERE s.since <= CAST(:until AS TIMESTAMP) AND (s.until IS NULL OR s.until >= CAST(:since AS TIMESTAMP))
ORDER BY s.since, s.cluster, s.broker_id
