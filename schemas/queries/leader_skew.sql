-- How was leadership spread, before and after?
-- At both ends of the window: what each broker led, should lead, and how much of that others led.
-- theme: partitions
WITH balance AS (
  SELECT *,
    valid_from <= CAST(:since AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:since AS TIMESTAMP)) AS is_before,
    valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP)) AS is_after
  FROM gold.leader_balance
  WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
)

SELECT cluster, broker_id,
  max(leads) FILTER (WHERE is_before) AS leads_before,
  max(leads) FILTER (WHERE is_after) AS leads_after,
  max(preferred_for) FILTER (WHERE is_after) AS preferred_for_after,
  max(imbalance) FILTER (WHERE is_before) AS imbalance_before,
  max(imbalance) FILTER (WHERE is_after) AS imbalance_after,
  max(imbalance) FILTER (WHERE valid_from <= CAST(:until AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:since AS TIMESTAMP))) AS imbalance_worst
FROM balance
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
