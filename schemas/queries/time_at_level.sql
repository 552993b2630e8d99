-- How long were partitions under-replicated or offline?
-- By topic: under-replicated, at min ISR, under min ISR and offline. The sum over partitions, in seconds, the least and
-- the most that it can have been; an episode that lasts can have lasted up to the window's end. not_observed_s is how
-- much of the most nobody observed: none of it is in the least. A partition whose replicas are as few as it needs in
-- sync is at min ISR as long as nothing happens.
-- theme: partitions
WITH spans AS (
  SELECT cluster_id, cluster, topic, partition, level, smallest_isr, ended_before IS NULL AS goes_on,
    greatest(began_before, CAST(:since AS TIMESTAMP)) AS surely_from,
    least(coalesce(ended_after, CAST(:until AS TIMESTAMP)), CAST(:until AS TIMESTAMP)) AS surely_until,
    greatest(coalesce(began_after, CAST(:since AS TIMESTAMP)), CAST(:since AS TIMESTAMP)) AS maybe_from,
    least(coalesce(ended_before, CAST(:until AS TIMESTAMP)), CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.isr_episodes
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
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

SELECT cluster, topic, level,
  count(DISTINCT partition) AS partitions,
  count(*) AS episodes,
  count_if(goes_on) AS going_on,
  sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
  sum(greatest(0, unix_micros(maybe_until) - unix_micros(maybe_from))) / 1e6 AS seconds_max,
  sum(maybe_unobserved) / 1e6 AS not_observed_s,
  min(smallest_isr) AS smallest_isr
FROM observed
GROUP BY cluster, topic, level
ORDER BY cluster, topic, array_position(array('offline', 'under_min_isr', 'at_min_isr', 'under_replicated'), level)
