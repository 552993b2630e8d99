-- What a member subscribes to is not known where its subscription could not be read; what it has is known then, too.
SELECT DISTINCT rebalance_id, cluster_id, cluster, group_id, began_before, topic
FROM (
  SELECT id AS rebalance_id, cluster_id, cluster, group_id, began_before, explode(subscribed) AS topic
  FROM {gold.rebalances}
  UNION ALL
  SELECT rebalance_id, cluster_id, cluster, group_id, began_before,
    explode(transform(concat(coalesce(before, array()), coalesce(after, array())), had -> had.topic))
  FROM {gold.rebalance_members}
)
WHERE topic IS NOT NULL
