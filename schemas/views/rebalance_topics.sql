-- If a subscription could not be read, nobody knows its topics; the partitions that the member has are known.
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
