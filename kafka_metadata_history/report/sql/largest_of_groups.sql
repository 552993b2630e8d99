-- The groups that rebalanced most.
WITH counted AS (
  SELECT group_id, count(*) AS rebalances,
    CASE WHEN count(coalesce(narrowed_after, began_after)) = count(*)
      THEN min(coalesce(narrowed_after, began_after)) END AS began_after,
    min(coalesce(narrowed_before, began_before)) AS began_before,
    max(ended_after) AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before,
    max(get(reasons, 0)) AS reason, count(DISTINCT get(reasons, 0)) AS reasons
  FROM gold.rebalances
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
    AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
    AND (CAST(:topic AS STRING) IS NULL OR id IN (
      SELECT rebalance_id FROM gold.rebalance_topics
      WHERE topic = :topic AND cluster = :cluster AND began_before <= CAST(:until AS TIMESTAMP)))
  GROUP BY group_id
)

SELECT concat('group ', group_id, ': ', rebalances,
    IF(rebalances = 1, ' rebalance', ' rebalances')) AS thing,
  began_after, began_before, ended_after, ended_before,
  CASE WHEN reasons = 1 THEN reason WHEN reasons > 1 THEN concat(reasons, ' reasons') END
    AS inferred,
  row_number() OVER (ORDER BY rebalances DESC, group_id) AS rank
FROM counted
ORDER BY rank
LIMIT 10
