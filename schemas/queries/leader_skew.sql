-- How was leadership spread over brokers at :since and at :until, and how much of what each should lead did others lead?
WITH balance AS (
  SELECT *, at <= CAST(:since AS TIMESTAMP) AND (superseded_at IS NULL OR superseded_at > CAST(:since AS TIMESTAMP)) AS is_before,
    at <= CAST(:until AS TIMESTAMP) AND (superseded_at IS NULL OR superseded_at > CAST(:until AS TIMESTAMP)) AS is_after
  FROM gold.leader_balance
  WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
)

SELECT cluster, broker_id,
  max(leaders) FILTER (WHERE is_before) AS leaders_before,
  max(leaders) FILTER (WHERE is_after) AS leaders_after,
  max(preferred) FILTER (WHERE is_after) AS preferred_after,
  max(imbalance) FILTER (WHERE is_before) AS imbalance_before,
  max(imbalance) FILTER (WHERE is_after) AS imbalance_after,
  max(imbalance) FILTER (WHERE at <= CAST(:until AS TIMESTAMP)
    AND (superseded_at IS NULL OR superseded_at > CAST(:since AS TIMESTAMP))) AS imbalance_worst
FROM balance
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
