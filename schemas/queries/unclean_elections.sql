-- Which elections were unclean, or may have been?
-- Column unclean: proven or suspected. known_lost: how many of the records that were there when somebody asked for the
-- log's end last before the election were lost, by the next answer about the end at least, and by the end when the new
-- leader was last in sync at most. Nobody knows how many came after that answer. Ends are known in bronze, of partitions
-- that groups commit to (enrichment offsets); null where one is not. Offsets count, of markers too.
-- theme: partitions
WITH unclean AS (
  SELECT *,
    lag(began_before) OVER (PARTITION BY cluster_id, topic, partition ORDER BY began_before) AS prev_unclean,
    lead(began_after) OVER (PARTITION BY cluster_id, topic, partition ORDER BY began_before) AS next_unclean,
    lead(began_before) OVER (PARTITION BY cluster_id, topic, partition ORDER BY began_before) IS NULL AS is_last
  FROM gold.leader_changes
  WHERE (unclean IN ('suspected', 'proven') OR is_last_known_leader)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
),

elections AS (
  SELECT *
  FROM unclean
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
),

in_sync AS (
  SELECT e.id, max(s.last_seen_at) AS in_sync_at
  FROM elections e
  JOIN silver.partition_snapshots s
    ON s.cluster_id = e.cluster_id AND s.topic = e.topic AND s.partition = e.partition
      AND array_contains(s.isr, e.leader) AND s.valid_from < e.began_before AND s.valid_to IS NOT NULL
  GROUP BY e.id
),

ends AS (
  SELECT cluster_id, answer.topic, answer.partition, answer.log_end, answer.ends_read_after, answer.ends_read_before
  FROM (
    SELECT cluster_id, explode(offsets) AS answer
    FROM bronze.metadata_polls
    WHERE record = 'offsets'
      AND day BETWEEN date_sub(CAST(CAST(:since AS TIMESTAMP) AS DATE), 1)
        AND date_add(CAST(CAST(:until AS TIMESTAMP) AS DATE), 1)
  )
),

-- Until an unclean election a log's end only grows.
known AS (
  SELECT e.id,
    max(CASE WHEN n.ends_read_before <= e.began_after THEN n.log_end END) AS end_before,
    max(CASE WHEN n.ends_read_before <= i.in_sync_at THEN n.log_end END) AS end_in_sync,
    min(CASE WHEN n.ends_read_after >= e.began_before AND (e.is_last OR n.ends_read_before <= e.next_unclean)
      THEN n.log_end END) AS end_after
  FROM elections e
  JOIN ends n
    ON n.cluster_id = e.cluster_id AND n.topic = e.topic AND n.partition = e.partition
      AND (e.prev_unclean IS NULL OR n.ends_read_after >= e.prev_unclean)
  LEFT JOIN in_sync i ON i.id = e.id
  GROUP BY e.id
)

SELECT e.cluster, e.topic, e.partition, e.began_after, e.began_before, e.prev_leader, e.leader, e.prev_isr, e.unclean,
  CASE WHEN k.end_before < k.end_after THEN 0 ELSE k.end_before - k.end_after END AS known_lost_min,
  CASE WHEN k.end_before < k.end_in_sync THEN 0 ELSE k.end_before - k.end_in_sync END AS known_lost_max,
  e.is_last_known_leader, e.reason
FROM elections e
LEFT JOIN known k ON k.id = e.id
ORDER BY e.unclean, e.began_before, e.cluster, e.topic, e.partition
