-- Which elections were unclean, or may have been?
-- Column unclean: proven or suspected.
-- theme: partitions
SELECT cluster, topic, partition, began_after, began_before, prev_leader, leader, prev_isr, unclean,
  is_last_known_leader, reason
FROM gold.leader_changes
WHERE (unclean IN ('suspected', 'proven') OR is_last_known_leader)
  AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
ORDER BY unclean, began_before, cluster, topic, partition
