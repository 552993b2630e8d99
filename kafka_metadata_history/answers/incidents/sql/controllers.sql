-- The active controllers from then to then: by the controllers' log, else by answers of brokers.
WITH told AS (
  SELECT 1 AS place, controller_id, began_before AS since,
    lead(began_before) OVER (ORDER BY began_before, id) AS until
  FROM gold.controller_changes
  WHERE cluster = :cluster
  UNION ALL
  SELECT 2, controller_id, valid_from, valid_to FROM silver.quorum WHERE cluster = :cluster AND controller_id >= 0
)

SELECT place, controller_id, min(since) AS since
FROM told
WHERE since <= CAST(:until AS TIMESTAMP) AND (until IS NULL OR until > CAST(:since AS TIMESTAMP))
GROUP BY place, controller_id
ORDER BY place, since, controller_id
