-- Which partitions had a single in-sync replica left?
-- Which one, for how long, and whom they lacked. Stretches that last count up to the window's end.
WITH states AS (
  SELECT e.id, s.cluster, s.topic, s.partition, s.first_poll, s.prev_sent_at, s.valid_from, s.last_seen_sent_at, s.valid_to,
    s.isr, s.replicas,
    -- A state with another leader follows without a gap.
    lag(s.superseded_poll) OVER (PARTITION BY e.id ORDER BY s.first_poll) IS DISTINCT FROM s.first_poll AS is_first
  FROM gold.isr_episodes e
  JOIN silver.partition_snapshots s
    ON s.cluster_id = e.cluster_id AND s.topic = e.topic AND s.partition = e.partition
      AND s.valid_from >= e.began_before AND (e.ended_before IS NULL OR s.valid_from < e.ended_before)
  WHERE e.level = 'under_replicated' AND e.smallest_isr = 1 AND size(s.isr) = 1
    AND e.began_before <= CAST(:until AS TIMESTAMP)
    AND (e.ended_before IS NULL OR e.ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR e.cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR e.topic = :topic)
),

stretches AS (
  SELECT cluster, topic, partition,
    min_by(prev_sent_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(CASE WHEN valid_to IS NOT NULL THEN last_seen_sent_at END, first_poll) AS ended_after,
    max_by(valid_to, first_poll) AS ended_before,
    max_by(isr, first_poll)[0] AS in_sync,
    array_sort(array_distinct(flatten(collect_list(array_except(replicas, isr))))) AS brokers_out
  FROM (SELECT *, count_if(is_first) OVER (PARTITION BY id ORDER BY first_poll) AS stretch FROM states)
  GROUP BY cluster, topic, partition, id, stretch
)

SELECT cluster, topic, partition, in_sync, brokers_out, began_after, began_before,
  (unix_micros(coalesce(ended_after, CAST(:until AS TIMESTAMP))) - unix_micros(began_before)) / 1e6 AS seconds_min,
  (unix_micros(coalesce(ended_before, CAST(:until AS TIMESTAMP))) - unix_micros(began_after)) / 1e6 AS seconds_max,
  ended_after, ended_before
FROM stretches
WHERE began_before <= CAST(:until AS TIMESTAMP) AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)) OR in_sync = :broker)
ORDER BY began_before, cluster, topic, partition
