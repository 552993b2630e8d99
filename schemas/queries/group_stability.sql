-- How often, and for how long, did each group rebalance?
-- And for which share of the time was it not stable? Rebalances an hour and percents are of the part of the window in
-- which the group was there, somebody observed it and all of its records are known: after a gap in the log that part
-- begins again. A share has a least and a greatest value. A rebalance that lasts can have lasted up to the window's
-- end. not_observed_s is how much of the most seconds nobody observed: none of it is in the least.
-- theme: groups
WITH lives AS (
  SELECT cluster_id, group_id,
    max(cluster) AS cluster,
    -- As it was last there.
    max_by(group_type, valid_from) AS group_type,
    max_by(source, valid_from) AS source,
    max_by(known_since, valid_from) AS known_since,
    max_by(valid_to, valid_from) AS gone_at,
    min(valid_from) AS there_from
  FROM gold.group_lives
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to >= CAST(:since AS TIMESTAMP))
  GROUP BY cluster_id, group_id
),

known AS (
  SELECT l.cluster_id, l.group_id, l.cluster, l.group_type, l.source,
    CASE WHEN l.known_since IS NOT NULL
      THEN greatest(l.known_since, l.there_from, CAST(:since AS TIMESTAMP)) END AS known_from,
    least(l.gone_at, o.until, CAST(:until AS TIMESTAMP)) AS known_until
  FROM lives l
  LEFT JOIN silver.observed o
    ON o.cluster_id = l.cluster_id AND o.cluster = l.cluster
      AND o.history = IF(l.source = 'log', 'group_log', 'rebalance_history')
  WHERE l.known_since IS NULL OR l.known_since < CAST(:until AS TIMESTAMP)
),

told AS (
  SELECT cluster_id, cluster, group_id, source, skipped_generations, followed_coordinator_move, reasons, end_reason,
    ended_after, ended_before, coalesce(narrowed_after, began_after) AS began_after,
    coalesce(narrowed_before, began_before) AS began_before
  FROM gold.rebalances
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)) AND lasts_until >= CAST(:since AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
),

spans AS (
  SELECT cluster_id, told.cluster, group_id, told.source, skipped_generations, followed_coordinator_move, reasons,
    began_after, ended_before, known_from, known_until,
    -- What a gap cut off ended at its end, nobody knows how.
    ended_before IS NULL OR ended_before > known_from OR (ended_before = known_from AND end_reason <> 'unknown')
      AS is_known,
    greatest(began_before, CAST(:since AS TIMESTAMP)) AS surely_from,
    CASE WHEN ended_before IS NULL THEN CAST(:until AS TIMESTAMP)
      ELSE least(coalesce(ended_after, began_before), CAST(:until AS TIMESTAMP)) END AS surely_until,
    greatest(
      began_after, CAST(:since AS TIMESTAMP),
      -- A later one may have begun before the one before it surely was over: their time counts once.
      max(coalesce(ended_before, CAST(:until AS TIMESTAMP))) OVER (
        PARTITION BY cluster_id, group_id ORDER BY began_before ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) AS maybe_from,
    least(coalesce(ended_before, CAST(:until AS TIMESTAMP)), CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM told JOIN known USING (cluster_id, group_id)
),

-- Seconds are counted of each rebalance, and of each group for the time in which it is known.
stretches AS (
  SELECT cluster_id, cluster, group_id, source,
    inline(array(
      struct('surely' AS of, surely_from AS since, surely_until AS until),
      struct('maybe' AS of, maybe_from AS since, maybe_until AS until),
      struct('surely known' AS of, greatest(surely_from, known_from) AS since,
        least(surely_until, known_until) AS until),
      struct('maybe known' AS of, greatest(maybe_from, known_from) AS since,
        least(maybe_until, known_until) AS until)
    ))
  FROM spans
  UNION ALL
  SELECT cluster_id, cluster, group_id, source, 'known', known_from, known_until
  FROM known
  WHERE known_from IS NOT NULL
),

measured AS (
  SELECT s.cluster_id, s.group_id, s.of, greatest(0, unix_micros(s.until) - unix_micros(s.since)) AS micros,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, s.until)) - unix_micros(greatest(gap.gap_start, s.since)))), 0) AS unobserved
  FROM stretches s
  LEFT JOIN silver.observed o
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster
      AND o.history = IF(s.source = 'log', 'group_log', 'rebalance_history')
),

timed AS (
  SELECT cluster_id, group_id,
    nullif(sum(micros - unobserved) FILTER (WHERE of = 'known'), 0) / 1e6 AS seconds,
    sum(micros - unobserved) FILTER (WHERE of = 'surely') / 1e6 AS seconds_min,
    sum(micros) FILTER (WHERE of = 'maybe') / 1e6 AS seconds_max,
    sum(unobserved) FILTER (WHERE of = 'maybe') / 1e6 AS not_observed_s,
    sum(micros - unobserved) FILTER (WHERE of = 'surely known') / 1e6 AS known_seconds_min,
    sum(micros - unobserved) FILTER (WHERE of = 'maybe known') / 1e6 AS known_seconds_max
  FROM measured
  GROUP BY cluster_id, group_id
),

rebalanced AS (
  SELECT cluster_id, group_id,
    count(*) AS rebalances,
    count_if(is_known) AS known_rebalances,
    count_if(ended_before IS NULL) AS going_on,
    CASE WHEN count(skipped_generations) = count(*) THEN sum(skipped_generations) END AS skipped_generations,
    count_if(followed_coordinator_move) AS followed_coordinator_moves,
    array_sort(array_distinct(flatten(collect_list(reasons)))) AS reasons,
    -- The most is null where the begin of one of them has no bound.
    count(began_after) = count(*) AS is_bounded,
    count_if(is_known AND began_after IS NULL) = 0 AS is_known_bounded
  FROM spans
  GROUP BY cluster_id, group_id
),

stormy AS (
  SELECT cluster_id, group_id, count_if(kind = 'storm') AS storms, count_if(kind = 'crash_loop') AS crash_loops
  FROM gold.rebalance_storms
  WHERE began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
  GROUP BY cluster_id, group_id
)

SELECT cluster, group_id, group_type,
  coalesce(rebalances, 0) AS rebalances,
  coalesce(going_on, 0) AS going_on,
  CASE WHEN rebalances IS NULL THEN 0 ELSE skipped_generations END AS skipped_generations,
  coalesce(known_rebalances, 0) * 3600 / seconds AS per_hour,
  coalesce(seconds_min, 0) AS seconds_min,
  CASE WHEN rebalances IS NULL THEN 0 WHEN is_bounded THEN seconds_max END AS seconds_max,
  coalesce(not_observed_s, 0) AS not_observed_s,
  100 * coalesce(known_seconds_min, 0) / seconds AS percent_min,
  100 * CASE WHEN rebalances IS NULL THEN 0 WHEN is_known_bounded THEN known_seconds_max END / seconds AS percent_max,
  coalesce(reasons, array()) AS reasons,
  coalesce(followed_coordinator_moves, 0) AS followed_coordinator_moves,
  coalesce(storms, 0) AS storms,
  coalesce(crash_loops, 0) AS crash_loops
FROM known
LEFT JOIN timed USING (cluster_id, group_id)
LEFT JOIN rebalanced USING (cluster_id, group_id)
LEFT JOIN stormy USING (cluster_id, group_id)
WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
ORDER BY rebalances DESC, percent_min DESC, cluster, group_id
