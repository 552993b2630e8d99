-- Which groups consumed partitions across racks after a rebalance?
-- Of the partitions whose member tells its rack (client.rack): the share across racks is at least that of partitions
-- without a replica in the member's rack, at most that of those whose leader is in another one: whether a member
-- fetches from a follower (KIP-392), nothing tells.
-- theme: groups
SELECT r.cluster, r.group_id, r.generation, r.began_before, r.ended_before, r.members, x.partitions,
  x.across_racks_min, x.across_racks_max, r.assignment_skew
FROM gold.rebalance_racks x
JOIN gold.rebalances r
  ON r.id = x.rebalance_id AND r.cluster_id = x.cluster_id AND r.group_id = x.group_id
    AND r.began_before = x.began_before
WHERE x.began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND r.began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR x.cluster = :cluster)
  AND (CAST(:group AS STRING) IS NULL OR x.group_id = :group)
ORDER BY x.across_racks_max DESC, r.began_before, r.cluster, r.group_id
