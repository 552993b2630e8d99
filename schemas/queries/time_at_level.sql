-- How long were partitions under-replicated or offline?
-- By topic: under-replicated, at min ISR, under min ISR and offline. The sum over partitions, in seconds, the least and
-- the most that it can have been; episodes that last count up to the window's end. A partition whose replicas are as
-- few as it needs in sync is at min ISR as long as nothing happens.
WITH spans AS (
  SELECT cluster, topic, partition, level, smallest_isr, ended_before IS NULL AS goes_on,
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
)

SELECT cluster, topic, level,
  count(DISTINCT partition) AS partitions,
  count(*) AS episodes,
  count_if(goes_on) AS going_on,
  min(smallest_isr) AS smallest_isr,
  sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from))) / 1e6 AS seconds_min,
  sum(greatest(0, unix_micros(maybe_until) - unix_micros(maybe_from))) / 1e6 AS seconds_max
FROM spans
GROUP BY cluster, topic, level
ORDER BY cluster, topic, array_position(array('offline', 'under_min_isr', 'at_min_isr', 'under_replicated'), level)
