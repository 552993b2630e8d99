-- What happened to brokers: stopped, crashed, lagging?
-- How bad it got, and who else was hit, of the same rack or elsewhere. worst_level is one of under_replicated,
-- at_min_isr, under_min_isr, offline. stop is from the controllers' log. controlled: the broker asked to stop.
-- not_controlled: it was fenced and had not asked (killed, hung or cut off). both: one after the other. Null: it was
-- not fenced, or nobody read that log. not_observed_s is how much of the longest duration nobody observed: none of it
-- is in the shortest. An incident that lasts can have lasted up to the window's end.
-- theme: brokers
WITH chosen AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.broker_incidents
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
),

observed AS (
  SELECT c.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM chosen c
  LEFT JOIN silver.observed o
    ON o.cluster_id = c.cluster_id AND o.cluster = c.cluster AND o.history = 'isr_shrink'
),

stops AS (
  SELECT i.id,
    bool_or(r.in_controlled_shutdown) AS is_controlled,
    bool_or(r.is_fenced AND NOT r.prev_is_fenced AND NOT r.prev_in_controlled_shutdown AND NOT r.in_controlled_shutdown
      AND (i.began_after IS NULL OR r.valid_from >= i.began_after)) AS is_not_controlled
  FROM chosen i
  JOIN silver.broker_registrations r
    ON r.cluster_id = i.cluster_id AND r.broker_id = i.broker_id
      AND (i.ended_before IS NULL OR r.valid_from <= i.ended_before)
      AND (r.valid_to IS NULL OR i.began_after IS NULL OR r.valid_to >= i.began_after)
  GROUP BY i.id
)

SELECT i.cluster, i.broker_id, i.rack, i.began_after, i.began_before,
  CAST(floor((greatest(0, unix_micros(i.surely_until) - unix_micros(i.surely_from)) - i.surely_unobserved) / 1000)
    AS BIGINT) AS duration_ms_min,
  CASE WHEN i.began_after IS NOT NULL
    THEN CAST(floor((unix_micros(i.maybe_until) - unix_micros(i.maybe_from)) / 1000) AS BIGINT) END AS duration_ms_max,
  i.partitions, i.worst_level,
  CASE
    WHEN s.is_controlled AND s.is_not_controlled THEN 'both'
    WHEN s.is_controlled THEN 'controlled'
    WHEN s.is_not_controlled THEN 'not_controlled'
  END AS stop,
  i.causes, i.maybe_unobserved / 1e6 AS not_observed_s, i.ended_before,
  -- Brokers with an incident that went on at the same time.
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack = i.rack) AS others_in_rack,
  count(DISTINCT o.broker_id) FILTER (WHERE o.rack IS DISTINCT FROM i.rack) AS others_elsewhere
FROM observed i
LEFT JOIN stops s ON s.id = i.id
LEFT JOIN gold.broker_incidents o
  ON o.cluster_id = i.cluster_id AND o.broker_id <> i.broker_id
    AND (i.ended_before IS NULL OR o.began_before <= i.ended_before)
    AND (o.ended_before IS NULL OR o.ended_before >= i.began_before)
GROUP BY ALL
ORDER BY began_before, cluster, broker_id
