-- How did each broker of a restart stop and come back?
-- The brokers that restarts names, in order. seconds: until no ISR lacked it. overlap: with each other broker of the
-- restart that was out meanwhile, added up. under_min_isr: of partitions that lacked it, added up; no most where the min
-- ISR of one is not known. stop is from the controllers' log. controlled: the broker asked to stop. not_controlled: it
-- was fenced and had not asked (killed, hung or cut off). both: one after the other. Null: nobody read that log.
-- not_observed_s is how much of the most seconds nobody observed: no least has any of that.
-- theme: maintenance
WITH steps AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM gold.restarts
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
),

asked AS (
  SELECT *
  FROM steps
  WHERE (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
),

-- Episodes of partitions that lacked a broker. Of steps that began lately no files of before are read.
episodes AS (
  SELECT s.id, s.cluster_id, s.cluster, s.surely_from, s.surely_until, s.maybe_from, s.maybe_until, e.level, e.topic,
    e.began_after, e.began_before, e.ended_after, e.ended_before
  FROM gold.isr_episodes e
  JOIN asked s
    ON e.cluster_id = s.cluster_id AND e.level IN ('under_replicated', 'under_min_isr')
      AND array_contains(e.brokers_out, s.broker_id) AND e.began_before <= s.maybe_until
      AND (e.ended_before IS NULL OR e.ended_before >= s.maybe_from)
  WHERE s.maybe_from >= CAST(:since AS TIMESTAMP) - INTERVAL '7' DAY
    AND (e.ended_before IS NULL OR e.ended_before >= CAST(:since AS TIMESTAMP) - INTERVAL '7' DAY)
  UNION ALL
  SELECT s.id, s.cluster_id, s.cluster, s.surely_from, s.surely_until, s.maybe_from, s.maybe_until, e.level, e.topic,
    e.began_after, e.began_before, e.ended_after, e.ended_before
  FROM gold.isr_episodes e
  JOIN asked s
    ON e.cluster_id = s.cluster_id AND e.level IN ('under_replicated', 'under_min_isr')
      AND array_contains(e.brokers_out, s.broker_id) AND e.began_before <= s.maybe_until
      AND (e.ended_before IS NULL OR e.ended_before >= s.maybe_from)
  WHERE s.maybe_from < CAST(:since AS TIMESTAMP) - INTERVAL '7' DAY
),

spans AS (
  SELECT id, cluster_id, cluster, 'out' AS of, surely_from, surely_until, maybe_from, maybe_until
  FROM asked
  UNION ALL
  SELECT s.id, s.cluster_id, s.cluster, 'overlap', greatest(s.surely_from, o.surely_from),
    least(s.surely_until, o.surely_until), greatest(s.maybe_from, o.maybe_from), least(s.maybe_until, o.maybe_until)
  FROM asked s
  JOIN steps o ON o.restart_id = s.restart_id AND o.cluster_id = s.cluster_id AND o.broker_id <> s.broker_id
  UNION ALL
  SELECT id, cluster_id, cluster, 'under_min_isr', greatest(surely_from, began_before),
    least(surely_until, coalesce(ended_after, CAST(:until AS TIMESTAMP))),
    greatest(maybe_from, coalesce(began_after, began_before)),
    least(maybe_until, coalesce(ended_before, CAST(:until AS TIMESTAMP)))
  FROM episodes
  WHERE level = 'under_min_isr'
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
),

timed AS (
  SELECT id, of,
    sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
    sum(greatest(0, unix_micros(maybe_until) - unix_micros(maybe_from))) / 1e6 AS seconds_max,
    sum(maybe_unobserved) / 1e6 AS not_observed_s
  FROM observed
  GROUP BY id, of
),

-- One setting that is known for all of the episode.
unknown AS (
  SELECT DISTINCT e.id
  FROM episodes e
  LEFT JOIN silver.topic_configs c
    ON c.cluster_id = e.cluster_id AND c.topic = e.topic AND c.min_insync_replicas IS NOT NULL
      AND c.valid_from <= e.began_before AND (c.valid_to IS NULL OR c.valid_to >= e.ended_before)
  WHERE e.level = 'under_replicated' AND c.topic IS NULL
),

stops AS (
  SELECT s.id,
    bool_or(r.in_controlled_shutdown) AS is_controlled,
    bool_or(r.is_fenced AND NOT r.prev_is_fenced AND NOT r.prev_in_controlled_shutdown AND NOT r.in_controlled_shutdown
      AND (s.began_after IS NULL OR r.valid_from >= s.began_after)) AS is_not_controlled
  FROM asked s
  JOIN silver.broker_registrations r
    ON r.cluster_id = s.cluster_id AND r.broker_id = s.broker_id
      AND (s.ended_before IS NULL OR r.valid_from <= s.ended_before)
      AND (r.valid_to IS NULL OR s.began_after IS NULL OR r.valid_to >= s.began_after)
  GROUP BY s.id
)

SELECT s.cluster, s.began_after, s.began_before, s.broker_id,
  CASE
    WHEN p.is_controlled AND p.is_not_controlled THEN 'both'
    WHEN p.is_controlled THEN 'controlled'
    WHEN p.is_not_controlled THEN 'not_controlled'
  END AS stop,
  t.seconds_min, CASE WHEN s.began_after IS NOT NULL THEN t.seconds_max END AS seconds_max,
  coalesce(o.seconds_min, 0) AS overlap_s_min,
  CASE WHEN s.began_after IS NOT NULL THEN coalesce(o.seconds_max, 0) END AS overlap_s_max,
  coalesce(m.seconds_min, 0) AS under_min_isr_s_min,
  CASE WHEN s.began_after IS NOT NULL AND u.id IS NULL THEN coalesce(m.seconds_max, 0) END AS under_min_isr_s_max,
  t.not_observed_s
FROM asked s
JOIN timed t ON t.id = s.id AND t.of = 'out'
LEFT JOIN timed o ON o.id = s.id AND o.of = 'overlap'
LEFT JOIN timed m ON m.id = s.id AND m.of = 'under_min_isr'
LEFT JOIN unknown u ON u.id = s.id
LEFT JOIN stops p ON p.id = s.id
ORDER BY s.began_before, s.cluster, s.broker_id
