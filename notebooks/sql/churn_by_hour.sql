WITH sides AS (
  SELECT began_before, explode(array_distinct(array(prev_leader, leader))) AS broker_id, changes_min
  FROM gold.leader_changes
  WHERE cluster = :cluster
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
)

SELECT date_trunc('hour', began_before) AS hour, broker_id, sum(changes_min) AS changes
FROM sides
WHERE broker_id <> -1
GROUP BY ALL
ORDER BY hour, broker_id
