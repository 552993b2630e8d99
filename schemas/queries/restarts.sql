-- Which brokers were down one after the other?
-- As in a rolling restart: from the first broker that was lost until the last one was back in its ISRs. By
-- preferred_before each of them led again all that it should lead; null while one does not, or is not back.
-- not_observed_s is how much of the most seconds nobody observed: none of it is in the least. A restart that lasts can
-- have lasted up to the window's end.
-- theme: maintenance
WITH steps AS (
  SELECT s.restart_id, s.step, s.cluster_id, s.cluster, s.broker_id, s.began_after, s.began_before, s.ended_after,
    s.ended_before,
    min(greatest(b.valid_from, s.began_before)) AS preferred_before
  FROM gold.restarts s
  LEFT JOIN gold.leader_balance b
    ON b.cluster_id = s.cluster_id AND b.broker_id = s.broker_id AND b.led_elsewhere = 0
      AND s.ended_before IS NOT NULL AND (b.valid_to IS NULL OR b.valid_to > s.ended_before)
  WHERE (CAST(:cluster AS STRING) IS NULL OR s.cluster = :cluster)
  GROUP BY s.restart_id, s.step, s.cluster_id, s.cluster, s.broker_id, s.began_after, s.began_before, s.ended_after,
    s.ended_before
),

restarts AS (
  SELECT cluster_id, cluster, restart_id,
    min_by(began_after, step) AS began_after,
    min(began_before) AS began_before,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_after) END AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before,
    transform(array_sort(collect_list(struct(step, broker_id))), each -> each.broker_id) AS brokers,
    CASE WHEN count(preferred_before) = count(*) THEN max(preferred_before) END AS preferred_before
  FROM steps
  GROUP BY cluster_id, cluster, restart_id
  HAVING CAST(:broker AS INT) IS NULL OR bool_or(broker_id = :broker)
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM restarts
  WHERE began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
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

SELECT cluster, began_after, began_before, ended_after, ended_before, brokers,
  (greatest(0, unix_micros(surely_until) - unix_micros(surely_from)) - surely_unobserved) / 1e6 AS seconds_min,
  CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s, preferred_before
FROM observed
ORDER BY began_before, cluster
