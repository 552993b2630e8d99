-- How long did others lead what a broker should lead?
-- Stretches in which others led a partition that prefers the broker.
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
)

SELECT cluster, broker_id,
  min(valid_from) AS since,
  CASE WHEN count_if(valid_to IS NULL) = 0 THEN max(valid_to) END AS until,
  max(led_elsewhere) AS led_elsewhere_most,
  max(imbalance) AS imbalance_worst
FROM stretches
WHERE led_elsewhere > 0
GROUP BY cluster, cluster_id, broker_id, stretch
HAVING since <= CAST(:until AS TIMESTAMP) AND (until IS NULL OR until >= CAST(:since AS TIMESTAMP))
ORDER BY since, cluster, broker_id
