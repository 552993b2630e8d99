-- Which partitions had a single in-sync replica left?
-- Which one, for how long, and whom they lacked. A stretch that lasts can have lasted up to the window's end.
-- not_observed_s is how much of the most nobody observed: none of it is in the least.
-- theme: partitions
WITH states AS (
  SELECT e.id, s.cluster_id, s.cluster, s.topic, s.partition, s.first_poll, s.prev_sent_at, s.valid_from,
    s.last_seen_sent_at, s.valid_to, s.isr, s.replicas,
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
