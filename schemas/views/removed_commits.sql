-- Where the coordinators' log has a removal, what polls told of it is hidden. It is the same removal if the log's time of
-- it lies between the polls' bounds, a minute more on both sides: they are of two clocks.
WITH logged AS (
  SELECT c.cluster_id, c.cluster, c.group_id, c.topic, c.partition, c.last_committed, c.log_partition, c.removed_offset,
    c.removed_timestamp, t.group_id IS NOT NULL AS is_group_gone
  FROM {bronze.offset_commits} c
  -- Types 2, 3, 11 and 17 are of a whole group. All removals of one write have one time.
  LEFT JOIN (
    SELECT DISTINCT cluster, log_partition, group_id, timestamp
    FROM {bronze.group_log}
    WHERE record = 'record' AND is_tombstone AND type IN (2, 3, 11, 17)
  ) t ON t.cluster = c.cluster AND t.log_partition = c.log_partition AND t.group_id = c.group_id
    AND t.timestamp = c.removed_timestamp
  WHERE c.removed_offset IS NOT NULL
),

hidden AS (
  SELECT DISTINCT p.cluster_id, p.group_id, p.topic, p.partition, p.poll, p.committed_offset,
    l.log_partition, l.removed_offset
  FROM {internal.removed_commits} p
  JOIN logged l
    ON l.cluster_id = p.cluster_id AND l.group_id = p.group_id AND l.topic = p.topic AND l.partition = p.partition
      AND unix_micros(l.removed_timestamp) >= unix_micros(p.removed_after) - 60000000
      AND unix_micros(l.removed_timestamp) <= unix_micros(p.removed_before) + 60000000
)

SELECT l.cluster_id, l.cluster, l.group_id, l.topic, l.partition,
  -- If nobody committed since the batch before, only polls know the offset.
  coalesce(l.last_committed, o.committed_offset) AS committed_offset, 'log' AS source,
  CASE WHEN l.is_group_gone THEN 'group_deleted' ELSE 'removed' END AS reason,
  l.removed_timestamp AS removed_after, l.removed_timestamp AS removed_before, l.log_partition, l.removed_offset,
  CAST(NULL AS STRING) AS poll
FROM logged l
LEFT JOIN (
  SELECT cluster_id, group_id, topic, partition, log_partition, removed_offset, max(committed_offset) AS committed_offset
  FROM hidden
  GROUP BY cluster_id, group_id, topic, partition, log_partition, removed_offset
) o
  ON o.cluster_id = l.cluster_id AND o.group_id = l.group_id AND o.topic = l.topic AND o.partition = l.partition
    AND o.log_partition = l.log_partition AND o.removed_offset = l.removed_offset

UNION ALL

SELECT p.cluster_id, p.cluster, p.group_id, p.topic, p.partition, p.committed_offset, 'polls',
  CASE WHEN p.is_group_gone THEN 'group_deleted' ELSE 'removed' END,
  p.removed_after, p.removed_before, CAST(NULL AS INT), CAST(NULL AS BIGINT), p.poll
FROM {internal.removed_commits} p
LEFT JOIN (SELECT DISTINCT cluster_id, group_id, topic, partition, poll FROM hidden) h
  ON h.cluster_id = p.cluster_id AND h.group_id = p.group_id AND h.topic = p.topic AND h.partition = p.partition
    AND h.poll = p.poll
WHERE h.poll IS NULL
