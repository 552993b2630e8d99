-- Which partitions had a single in-sync replica left?
-- Which one, for how long, and whom they lacked. A stretch that lasts can have lasted up to the window's end.
-- not_observed_s is how much of the most nobody observed: none of it is in the least.
-- theme: partitions
WITH episodes AS (
  SELECT id, cluster_id, topic, partition, began_before, ended_before,
    began_before >= CAST(:since AS TIMESTAMP) - INTERVAL '7' DAY AS is_recent
  FROM gold.isr_episodes
  WHERE level = 'under_replicated' AND smallest_isr = 1
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
),

-- Of episodes that began lately no files of before are read; of others, if there are any, all are.
shrunk AS (
  SELECT e.id, s.*
  FROM silver.partition_snapshots s
  JOIN episodes e
    ON s.cluster_id = e.cluster_id AND s.topic = e.topic AND s.partition = e.partition
      AND s.valid_from >= e.began_before AND (e.ended_before IS NULL OR s.valid_from < e.ended_before)
  WHERE e.is_recent AND (s.valid_to IS NULL OR s.valid_to >= CAST(:since AS TIMESTAMP) - INTERVAL '7' DAY)
  UNION ALL
  SELECT e.id, s.*
  FROM silver.partition_snapshots s
  JOIN episodes e
    ON s.cluster_id = e.cluster_id AND s.topic = e.topic AND s.partition = e.partition
      AND s.valid_from >= e.began_before AND (e.ended_before IS NULL OR s.valid_from < e.ended_before)
  WHERE NOT e.is_recent
),

states AS (
  SELECT id, cluster_id, cluster, topic, partition, first_poll, prev_sent_at, valid_from, last_seen_sent_at, valid_to,
    isr, replicas,
    -- A state with another leader follows without a gap.
    lag(superseded_poll) OVER (PARTITION BY id ORDER BY first_poll) IS DISTINCT FROM first_poll AS is_first
  FROM shrunk
  WHERE size(isr) = 1
),

stretches AS (
  SELECT cluster_id, cluster, topic, partition,
    min_by(prev_sent_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(CASE WHEN valid_to IS NOT NULL THEN last_seen_sent_at END, first_poll) AS ended_after,
    max_by(valid_to, first_poll) AS ended_before,
    max_by(isr, first_poll)[0] AS in_sync,
    array_sort(array_distinct(flatten(collect_list(array_except(replicas, isr))))) AS brokers_out
  FROM (SELECT *, count_if(is_first) OVER (PARTITION BY id ORDER BY first_poll) AS stretch FROM states)
  GROUP BY cluster_id, cluster, topic, partition, id, stretch
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM stretches
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)) OR in_sync = :broker)
),

observed AS (
  SELECT s.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM spans s
  LEFT JOIN silver.observed o
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'isr_shrink'
)

SELECT cluster, topic, partition, in_sync, brokers_out, began_after, began_before,
  (greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
  CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s, ended_after, ended_before
FROM observed
ORDER BY began_before, cluster, topic, partition
