-- Which brokers had the most incidents?
-- And how long were they missing from ISRs: the sum over incidents, in seconds, the least and the most that it can have
-- been. An incident that lasts can have lasted up to the window's end. not_observed_s is how much of the most nobody
-- observed: none of it is in the least.
-- theme: brokers
WITH spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.broker_incidents
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
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

SELECT cluster, broker_id, max_by(rack, began_before) AS rack,
  count(*) AS incidents,
  count_if(ended_before IS NULL) AS going_on,
  sum(partitions) AS partitions_hit,
  sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
  -- Null where the begin of one of them has no bound.
  CASE WHEN count(began_after) = count(*)
    THEN sum(unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max,
  sum(maybe_unobserved) / 1e6 AS not_observed_s,
  array_sort(array_distinct(flatten(collect_list(causes)))) AS causes,
  max(began_before) AS last_began_before
FROM observed
GROUP BY cluster, broker_id
ORDER BY incidents DESC, partitions_hit DESC, cluster, broker_id
