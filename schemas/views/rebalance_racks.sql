-- Of streams groups a topic is a subtopology, whose partitions are in no table.
WITH ends AS (
  SELECT id, cluster_id, group_id, began_before, coalesce(ended_before, began_before) AS at
  FROM {internal.rebalances}
  WHERE group_type <> 'streams'
),

had AS (
  SELECT m.rebalance_id, m.cluster_id, m.cluster, m.group_id, m.began_before, m.member_id, m.rack, e.at,
    explode(m.after) AS has
  FROM {gold.rebalance_members} m
  JOIN ends e
    ON e.id = m.rebalance_id AND e.cluster_id = m.cluster_id AND e.group_id = m.group_id
      AND e.began_before = m.began_before
  WHERE m.rack IS NOT NULL
),

numbered AS (
  SELECT rebalance_id, cluster_id, cluster, group_id, began_before, member_id, rack, at, has.topic AS topic,
    explode(has.partitions) AS number
  FROM had
),

-- Each partition as it was then, a row for each of its replicas.
placed AS (
  SELECT n.rebalance_id, n.cluster_id, n.cluster, n.group_id, n.began_before, n.member_id, n.rack, n.at, n.topic,
    n.number, p.leader, explode(p.replicas) AS replica
  FROM numbered n
  JOIN {silver.partition_snapshots} p
    ON p.cluster_id = n.cluster_id AND p.topic = n.topic AND p.partition = n.number
      AND p.valid_from <= n.at AND (p.valid_to IS NULL OR p.valid_to > n.at)
),

-- Null: the rack of its leader is not known. A member may fetch from a replica in its rack, if brokers let it (KIP-392).
crossed AS (
  SELECT p.rebalance_id, p.cluster_id, p.cluster, p.group_id, p.began_before, p.member_id, p.topic, p.number,
    max(CASE WHEN p.replica = p.leader THEN r.rack END) <> max(p.rack) AS may_cross,
    count(r.rack) = count(*) AND NOT max(coalesce(r.rack = p.rack, FALSE)) AS has_none_near
  FROM placed p
  LEFT JOIN {silver.broker_racks} r
    ON r.cluster_id = p.cluster_id AND r.broker_id = p.replica AND r.valid_from <= p.at
      AND (r.valid_to IS NULL OR r.valid_to > p.at)
  GROUP BY p.rebalance_id, p.cluster_id, p.cluster, p.group_id, p.began_before, p.member_id, p.topic, p.number
)

SELECT rebalance_id, cluster_id, cluster, group_id, began_before, CAST(count(*) AS INT) AS partitions,
  count_if(may_cross AND has_none_near) / count(*) AS across_racks_min,
  count_if(may_cross) / count(*) AS across_racks_max
FROM crossed
WHERE may_cross IS NOT NULL
GROUP BY rebalance_id, cluster_id, cluster, group_id, began_before
