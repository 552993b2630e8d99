-- Which brokers answered clients from old metadata?
-- From when to when, and how far behind. A broker that is cut off from the controllers answers from its image, the
-- metadata that it had last. not_observed_s is how much of the longest duration nobody observed: none of it is in the
-- shortest. A stretch that lasts can have lasted up to the window's end.
-- theme: brokers
WITH spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.stale_brokers
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
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
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'polls'
)

SELECT cluster, broker_id, broker, began_after, began_before, ended_before, end_reason,
  CAST(floor((greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1000) AS BIGINT)
    AS duration_ms_min,
  CASE WHEN began_after IS NOT NULL
    THEN CAST(floor((unix_micros(maybe_until) - unix_micros(maybe_from)) / 1000) AS BIGINT) END AS duration_ms_max,
  maybe_unobserved / 1e6 AS not_observed_s,
  partitions_behind, epochs_behind
FROM observed
ORDER BY began_before, cluster, broker_id
