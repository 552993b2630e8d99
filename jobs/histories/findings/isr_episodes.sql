SELECT CASE level WHEN 'offline' THEN 'partition_offline' ELSE level END AS kind, cluster_id, cluster, last_leader AS broker_id,
  brokers_out AS brokers,
  coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic, count(*) AS partitions,
  source, began_after, began_before, ended_after, ended_before
FROM (
  SELECT e.*, l.prev_leader AS last_leader
  FROM {gold.isr_episodes} e
  LEFT JOIN (
    -- The last leader of a partition without one: it may be in the ISR still.
    SELECT cluster_id, cluster, topic, partition, poll, prev_leader
    FROM {gold.leader_changes} WHERE leader = -1 AND prev_leader >= 0 AND began_before >= :since
  ) l
    ON l.cluster_id = e.cluster_id AND l.cluster = e.cluster AND l.topic = e.topic AND l.partition = e.partition
      AND l.poll = e.poll AND e.level = 'offline'
  WHERE e.level IN ('under_replicated', 'under_min_isr', 'offline')
    AND (e.ended_before IS NULL OR e.ended_before >= :since)
)
GROUP BY level, cluster_id, cluster, last_leader, brokers_out,
  if(size(brokers_out) = 0 AND last_leader IS NULL, topic, NULL), source, began_after, began_before, ended_after,
  ended_before
