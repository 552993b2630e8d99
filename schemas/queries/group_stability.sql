-- How often, and for how long, did each group rebalance?
-- And for which share of the time was it not stable? Rebalances an hour and percents are of the part of the window in
-- which the group was there and all of its records are known: after a gap in the log that part begins again. A share
-- has a least and a greatest value; rebalances that last count up to the window's end.
WITH lives AS (
  SELECT cluster_id, group_id,
    max(cluster) AS cluster,
    -- As it was last there.
    max_by(group_type, valid_from) AS group_type,
    max_by(known_since, valid_from) AS known_since,
    max_by(valid_to, valid_from) AS gone_at,
    min(valid_from) AS there_from
  FROM gold.group_lives
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to >= CAST(:since AS TIMESTAMP))
  GROUP BY cluster_id, group_id
),

known AS (
  SELECT cluster_id, group_id, cluster, group_type,
    CASE WHEN known_since IS NOT NULL
      THEN greatest(known_since, there_from, CAST(:since AS TIMESTAMP)) END AS known_from,
    least(gone_at, CAST(:until AS TIMESTAMP)) AS known_until
  FROM lives
  WHERE known_since IS NULL OR known_since < CAST(:until AS TIMESTAMP)
),

told AS (
  SELECT cluster_id, group_id, skipped_generations, followed_coordinator_move, reasons, end_reason, ended_after,
    ended_before, coalesce(narrowed_after, began_after) AS began_after,
    coalesce(narrowed_before, began_before) AS began_before
  FROM gold.rebalances
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
),

spans AS (
  SELECT cluster_id, group_id, skipped_generations, followed_coordinator_move, reasons, began_after, ended_before,
    known_from, known_until,
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

rebalanced AS (
  SELECT cluster_id, group_id,
    count(*) AS rebalances,
    count_if(is_known) AS known_rebalances,
    count_if(ended_before IS NULL) AS going_on,
    CASE WHEN count(skipped_generations) = count(*) THEN sum(skipped_generations) END AS skipped_generations,
    count_if(followed_coordinator_move) AS followed_coordinator_moves,
    array_sort(array_distinct(flatten(collect_list(reasons)))) AS reasons,
    sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from))) / 1e6 AS seconds_min,
    -- Null where the begin of one of them has no bound.
    CASE WHEN count(began_after) = count(*)
      THEN sum(greatest(0, unix_micros(maybe_until) - unix_micros(maybe_from))) / 1e6 END AS seconds_max,
    sum(greatest(
      0, unix_micros(least(surely_until, known_until)) - unix_micros(greatest(surely_from, known_from)))
    ) / 1e6 AS known_seconds_min,
    CASE WHEN count_if(is_known AND began_after IS NULL) = 0
      THEN sum(greatest(
        0, unix_micros(least(maybe_until, known_until)) - unix_micros(greatest(maybe_from, known_from)))
      ) / 1e6 END AS known_seconds_max
  FROM spans
  GROUP BY cluster_id, group_id
),

stormy AS (
  SELECT cluster_id, group_id, count_if(kind = 'storm') AS storms, count_if(kind = 'crash_loop') AS crash_loops
  FROM gold.rebalance_storms
  WHERE began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
  GROUP BY cluster_id, group_id
),

timed AS (
  SELECT *, nullif(unix_micros(known_until) - unix_micros(known_from), 0) / 1e6 AS seconds FROM known
)

SELECT cluster, group_id, group_type,
  coalesce(rebalances, 0) AS rebalances,
  coalesce(going_on, 0) AS going_on,
  CASE WHEN rebalances IS NULL THEN 0 ELSE skipped_generations END AS skipped_generations,
  coalesce(known_rebalances, 0) * 3600 / seconds AS per_hour,
  coalesce(seconds_min, 0) AS seconds_min,
  CASE WHEN rebalances IS NULL THEN 0 ELSE seconds_max END AS seconds_max,
  100 * coalesce(known_seconds_min, 0) / seconds AS percent_min,
  100 * CASE WHEN rebalances IS NULL THEN 0 ELSE known_seconds_max END / seconds AS percent_max,
  coalesce(reasons, array()) AS reasons,
  coalesce(followed_coordinator_moves, 0) AS followed_coordinator_moves,
  coalesce(storms, 0) AS storms,
  coalesce(crash_loops, 0) AS crash_loops
FROM timed LEFT JOIN rebalanced USING (cluster_id, group_id) LEFT JOIN stormy USING (cluster_id, group_id)
WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
ORDER BY rebalances DESC, percent_min DESC, cluster, group_id
