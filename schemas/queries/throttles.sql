-- Which throttles of moves are set, and does one run?
-- At the window's end: the settings leader.replication.throttled.*, follower.replication.throttled.* and
-- replica.alter.log.dirs.io.max.bytes.per.second of brokers (an empty name: of all) and topics, which slow down
-- replication until somebody removes them. The controllers' log alone tells. reassignments: how many run in the
-- cluster. left_since: when the last one ended, if none runs and the throttle was there before that.
-- theme: maintenance
WITH running AS (
  SELECT cluster_id,
    count_if(valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP)) AS reassignments,
    max(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN valid_to END) AS last_ended
  FROM silver.reassignments
  WHERE valid_from <= CAST(:until AS TIMESTAMP)
  GROUP BY cluster_id
)

SELECT c.cluster, IF(c.resource_type = 4, 'broker', 'topic') AS of, c.resource_name, c.name, c.value,
  c.prev_sent_at AS began_after, c.valid_from AS began_before,
  coalesce(r.reassignments, 0) AS reassignments,
  CASE WHEN r.reassignments = 0 AND c.valid_from <= r.last_ended THEN r.last_ended END AS left_since
FROM silver.configs c
LEFT JOIN running r ON r.cluster_id = c.cluster_id
WHERE c.resource_type IN (2, 4)
  AND (c.name LIKE 'leader.replication.throttled.%' OR c.name LIKE 'follower.replication.throttled.%'
    OR c.name = 'replica.alter.log.dirs.io.max.bytes.per.second')
  AND c.valid_from <= CAST(:until AS TIMESTAMP) AND (c.valid_to IS NULL OR c.valid_to > CAST(:until AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR c.cluster = :cluster)
  AND (CAST(:topic AS STRING) IS NULL OR (c.resource_type = 2 AND c.resource_name = :topic))
  AND (CAST(:broker AS INT) IS NULL OR (c.resource_type = 4 AND c.resource_name IN ('', CAST(:broker AS STRING))))
ORDER BY left_since DESC, c.cluster, c.resource_type, c.resource_name, c.name
