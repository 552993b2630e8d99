-- Polls tell of a group until its log does: from there on what they told is hidden. A move of a coordinator writes no
-- record; it is an event of each group that was there then, by the log or by polls.
WITH logged AS (
  SELECT cluster_id, group_id, min(valid_from) AS logged_from
  FROM {gold.group_lives}
  WHERE source = 'log'
  GROUP BY cluster_id, group_id
)

SELECT e.id, e.cluster_id, e.cluster, e.group_id, e.event, e.group_type, e.prev_group_type, e.source, e.began_after,
  e.began_before, e.log_partition, e.offset, e.poll, e.generation, e.member_id, e.prev_member_id, e.instance_id,
  e.client_id, e.client_host, CAST(NULL AS INT) AS broker_id, CAST(NULL AS INT) AS prev_broker_id, e.detail,
  e.updated_at
FROM {internal.group_events} e
LEFT JOIN logged l ON l.cluster_id = e.cluster_id AND l.group_id = e.group_id
WHERE e.source = 'log' OR l.logged_from IS NULL OR e.began_before < l.logged_from

UNION ALL

SELECT DISTINCT md5(concat_ws('\n', c.cluster_id, g.group_id, 'coordinator_moved', c.poll)), c.cluster_id, c.cluster,
  g.group_id, 'coordinator_moved', CAST(NULL AS STRING), CAST(NULL AS STRING), 'polls', c.began_after,
  c.began_before, c.log_partition, CAST(NULL AS BIGINT), c.poll, CAST(NULL AS INT), CAST(NULL AS STRING),
  CAST(NULL AS STRING), CAST(NULL AS STRING), CAST(NULL AS STRING), CAST(NULL AS STRING), c.leader, c.prev_leader,
  CAST(NULL AS STRING), CAST(NULL AS TIMESTAMP)
FROM {silver.coordinators} c
JOIN {gold.group_lives} g
  ON g.cluster_id = c.cluster_id AND g.log_partition = c.log_partition
    AND g.valid_from <= c.began_before AND (g.valid_to IS NULL OR g.valid_to > c.began_before)
WHERE c.is_move
