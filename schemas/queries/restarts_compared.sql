-- Did a restart take longer than the five before it?
-- Of the restarts that restarts names: seconds from the first broker that was lost until the last one was back, and out
-- (of ISRs) of all its brokers, added up. usual: the median of the cluster's five restarts before, or of fewer if there
-- were no more; null for the first one, and no most where one of them has none. not_observed_s is how much of the most
-- seconds nobody observed: no least has any of that. A restart that lasts can have lasted up to the window's end.
-- theme: maintenance
WITH steps AS (
  SELECT *
  FROM gold.restarts
  WHERE began_before <= CAST(:until AS TIMESTAMP) AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
),

restarts AS (
  SELECT cluster_id, cluster, restart_id,
    min_by(began_after, step) AS began_after,
    min(began_before) AS began_before,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_after) END AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before,
    transform(array_sort(collect_list(struct(step, broker_id))), each -> each.broker_id) AS brokers
  FROM steps
  GROUP BY cluster_id, cluster, restart_id
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM (
    SELECT restart_id, cluster_id, cluster, true AS is_whole, began_after, began_before, ended_after, ended_before
    FROM restarts
    UNION ALL
    SELECT restart_id, cluster_id, cluster, false, began_after, began_before, ended_after, ended_before
    FROM steps
  )
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
  SELECT restart_id, is_whole,
    sum(greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
    CASE WHEN count(began_after) = count(*) THEN sum(unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END
      AS seconds_max,
    sum(maybe_unobserved) / 1e6 AS not_observed_s
  FROM observed
  GROUP BY restart_id, is_whole
),

-- Each list has the five before, but for a most that is not known.
beside AS (
  SELECT r.cluster, r.began_after, r.began_before, r.ended_before, r.brokers, w.seconds_min, w.seconds_max,
    o.seconds_min AS out_s_min, o.seconds_max AS out_s_max, w.not_observed_s,
    array_sort(collect_list(w.seconds_min) OVER five) AS least, array_sort(collect_list(w.seconds_max) OVER five) AS most,
    array_sort(collect_list(o.seconds_min) OVER five) AS out_least,
    array_sort(collect_list(o.seconds_max) OVER five) AS out_most
  FROM restarts r
  JOIN timed w ON w.restart_id = r.restart_id AND w.is_whole
  JOIN timed o ON o.restart_id = r.restart_id AND NOT o.is_whole
  WINDOW five AS (PARTITION BY r.cluster_id, r.cluster ORDER BY r.began_before, r.restart_id
    ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)
),

numbered AS (
  SELECT *, CAST((size(least) - 1) DIV 2 AS INT) AS low, CAST(size(least) DIV 2 AS INT) AS high FROM beside
)

SELECT cluster, began_after, began_before, brokers, seconds_min, seconds_max,
  (get(least, low) + get(least, high)) / 2 AS usual_seconds_min,
  CASE WHEN size(most) = size(least) THEN (get(most, low) + get(most, high)) / 2 END AS usual_seconds_max,
  out_s_min, out_s_max,
  (get(out_least, low) + get(out_least, high)) / 2 AS usual_out_s_min,
  CASE WHEN size(out_most) = size(out_least) THEN (get(out_most, low) + get(out_most, high)) / 2 END AS usual_out_s_max,
  not_observed_s
FROM numbered
WHERE (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers, CAST(:broker AS INT)))
ORDER BY began_before, cluster
