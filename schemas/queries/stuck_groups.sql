-- Which groups were in a rebalance at the window's end?
-- The longest first, and since when. --at-least leaves out those of less. By the log, and by polled states: a classic
-- group's rebalance is written only when it is over. not_observed_s is how much of the most nobody observed: none of it
-- is in the least.
-- theme: groups
WITH states AS (
  SELECT s.*, s.state NOT IN ('Stable', 'Empty', 'Dead') AS is_unstable,
    coalesce(s.end_reason IS NOT NULL AND s.valid_to <= CAST(:until AS TIMESTAMP), false) AS is_gone
  FROM silver.group_snapshots s
  -- Only the history of groups that are unstable at the window's end is read.
  JOIN (
    SELECT DISTINCT cluster_id, group_id
    FROM silver.group_snapshots
    WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
      AND state NOT IN ('Stable', 'Empty', 'Dead')
  ) u ON u.cluster_id = s.cluster_id AND u.group_id = s.group_id
  WHERE s.valid_from <= CAST(:until AS TIMESTAMP)
),

-- Since the last state that was stable, or unknown, or since the group is there.
unstable AS (
  SELECT cluster_id, cluster, group_id,
    max_by(group_type, first_poll) AS group_type,
    max_by(state, first_poll) AS state,
    min_by(prev_sent_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(size(members), first_poll) AS members
  FROM (
    SELECT *,
      max(CASE WHEN is_unstable AND NOT is_gone THEN NULL ELSE first_poll END)
        OVER (PARTITION BY cluster_id, group_id) AS stable_poll
    FROM states
  )
  WHERE stable_poll IS NULL OR first_poll > stable_poll
  GROUP BY cluster_id, cluster, group_id
  HAVING max_by(valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP), first_poll)
),

rebalancing AS (
  SELECT cluster_id, cluster, group_id, group_type, coalesce(narrowed_after, began_after) AS began_after,
    coalesce(narrowed_before, began_before) AS began_before, members, reasons, source
  FROM gold.rebalances
  WHERE began_before <= CAST(:until AS TIMESTAMP) AND (ended_before IS NULL OR ended_before > CAST(:until AS TIMESTAMP))
    AND lasts_until > CAST(:until AS TIMESTAMP)
),

stuck AS (
  SELECT
    coalesce(r.cluster_id, u.cluster_id) AS cluster_id,
    coalesce(r.cluster, u.cluster) AS cluster,
    coalesce(r.group_id, u.group_id) AS group_id,
    coalesce(r.group_type, u.group_type) AS group_type,
    u.state,
    CASE WHEN r.began_before IS NULL THEN u.began_after ELSE r.began_after END AS began_after,
    coalesce(r.began_before, u.began_before) AS began_before,
    coalesce(r.members, u.members) AS members,
    r.reasons,
    CASE WHEN r.source = 'log' THEN 'group_log' WHEN r.source = 'polls' THEN 'rebalance_history' ELSE 'polls' END
      AS history
  FROM rebalancing r FULL OUTER JOIN unstable u ON u.cluster_id = r.cluster_id AND u.group_id = r.group_id
),

spans AS (
  SELECT *, began_before AS surely_from, CAST(:until AS TIMESTAMP) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, CAST(:until AS TIMESTAMP) AS maybe_until
  FROM stuck
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
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = s.history
),

timed AS (
  SELECT *, (unix_micros(surely_until) - unix_micros(surely_from) - surely_unobserved) / 1e6 AS seconds_min,
    CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max
  FROM observed
)

SELECT s.cluster, s.group_id, s.group_type, s.state, s.began_after, s.began_before, s.seconds_min, s.seconds_max,
  s.maybe_unobserved / 1e6 AS not_observed_s, s.members, s.reasons, c.broker_id AS coordinator
FROM timed s
LEFT JOIN gold.group_coordinators c
  ON c.cluster_id = s.cluster_id AND c.group_id = s.group_id
    AND c.valid_from <= CAST(:until AS TIMESTAMP)
    AND (c.valid_to IS NULL OR c.valid_to > CAST(:until AS TIMESTAMP))
WHERE (CAST(:cluster AS STRING) IS NULL OR s.cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR c.broker_id = :broker)
  AND (CAST(:group AS STRING) IS NULL OR s.group_id = :group)
  AND (CAST(:at_least AS BIGINT) IS NULL OR s.seconds_min >= :at_least)
ORDER BY seconds_min DESC, s.cluster, s.group_id
