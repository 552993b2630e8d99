-- Which brokers left in-sync replicas, in which order?
-- And of how many partitions at a time. not_observed_s: for how long at most nobody observed whether it was still out
-- of one of them; none of that is in the shortest. Who is still out can have been out up to the window's end.
-- theme: partitions
WITH spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.isr_changes
  WHERE change = 'left' AND array_contains(replicas, broker_id)
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
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

SELECT cluster, began_after, began_before, broker_id, rack,
  count(*) AS partitions,
  array_sort(collect_set(topic)) AS topics,
  array_sort(collect_set(cause)) AS causes,
  count_if(is_flapping) AS flapping,
  CAST(floor(min(greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1000)
    AS BIGINT) AS shortest_ms_min,
  -- Null while one of them is still out.
  CASE WHEN count_if(ended_before IS NULL) = 0 THEN max(duration_ms_max) END AS longest_ms_max,
  max(maybe_unobserved) / 1e6 AS not_observed_s
FROM observed
GROUP BY cluster, began_after, began_before, broker_id, rack
ORDER BY began_before, partitions DESC, cluster, broker_id
