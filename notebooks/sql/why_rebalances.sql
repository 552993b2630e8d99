SELECT coalesce(get(reasons, 0), 'unknown') AS reason, count(*) AS rebalances, count(DISTINCT group_id) AS groups
FROM gold.rebalances
WHERE cluster = :cluster
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
GROUP BY ALL
ORDER BY rebalances DESC, reason
