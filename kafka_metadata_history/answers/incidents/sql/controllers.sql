-- The active controllers from then to then.
SELECT controller_id, min(began_before) AS since
FROM gold.controllers
WHERE cluster = :cluster AND controller_id >= 0 AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before > CAST(:since AS TIMESTAMP))
GROUP BY controller_id
ORDER BY since, controller_id
