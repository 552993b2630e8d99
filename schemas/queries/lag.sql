-- Which groups are behind, and since when?
-- At the window's end, the largest lag first; also groups with a commit beyond the end of a log (partitions_beyond),
-- whose lag is negative. By what polls asked of offsets (enrich: offsets). --at-least leaves out those that were behind
-- for less. held_up_min: what open transactions hold up, if the group reads with read_committed; question held_up has
-- them. not_observed_s is for how many of the most seconds nobody asked: none of them is in the least.
-- theme: groups
WITH told AS (
  SELECT cluster_id, cluster, group_id, first_poll, valid_from, last_seen_at, end_reason,
    partitions_behind + partitions_beyond + partitions_unknown = 0 AS is_fine,
    partitions_behind + partitions_beyond + partitions_unknown = 0
      OR coalesce(valid_to <= CAST(:until AS TIMESTAMP) AND end_reason IS NOT NULL, false) AS is_last
  FROM gold.group_lag
  WHERE valid_from <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
),

-- The last row in which it was not behind, or with which it was gone, and the newest one. Few columns of many rows.
turns AS (
  SELECT cluster_id, cluster, group_id, max(CASE WHEN is_last THEN first_poll END) AS last_poll,
    max(first_poll) AS newest_poll
  FROM told
  GROUP BY cluster_id, cluster, group_id
),

-- Since that row, or since it is there.
since AS (
  SELECT r.cluster_id, r.cluster, r.group_id, r.newest_poll,
    max(CASE WHEN t.first_poll = r.last_poll AND t.is_fine AND t.end_reason IS NULL THEN t.last_seen_at END)
      AS began_after,
    min(CASE WHEN r.last_poll IS NULL OR t.first_poll > r.last_poll THEN t.valid_from END) AS began_before
  FROM turns r
  JOIN told t
    ON t.cluster_id = r.cluster_id AND t.cluster = r.cluster AND t.group_id = r.group_id
      AND (r.last_poll IS NULL OR t.first_poll >= r.last_poll)
  WHERE r.last_poll IS NULL OR r.last_poll < r.newest_poll
  GROUP BY r.cluster_id, r.cluster, r.group_id, r.newest_poll
),

behind AS (
  SELECT l.cluster_id, l.cluster, l.group_id, l.burrow_status, l.lag_min, l.lag_max, l.largest_lag_max, s.began_after,
    s.began_before, l.partitions, l.partitions_behind, l.partitions_beyond, l.partitions_without_progress,
    l.partitions_unknown, l.oldest_commit_after, l.oldest_commit_before, l.is_simple, l.valid_from AS told_at,
    l.not_consumed_max, l.held_up_min, l.partitions_held_up
  FROM since s
  JOIN gold.group_lag l
    ON l.cluster_id = s.cluster_id AND l.cluster = s.cluster AND l.group_id = s.group_id AND l.first_poll = s.newest_poll
  -- The next row begins where it ends. So files of before are skipped.
  WHERE l.valid_to IS NULL OR l.valid_to > CAST(:until AS TIMESTAMP)
),

spans AS (
  SELECT *, began_before AS surely_from, CAST(:until AS TIMESTAMP) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, CAST(:until AS TIMESTAMP) AS maybe_until
  FROM behind
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
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'group_lag'
),

timed AS (
  SELECT *, (unix_micros(surely_until) - unix_micros(surely_from) - surely_unobserved) / 1e6 AS seconds_min,
    CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max
  FROM observed
)

SELECT cluster, group_id, burrow_status, lag_min, lag_max, began_after, began_before, seconds_min, seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s,
  largest_lag_max, partitions, partitions_behind, partitions_beyond, partitions_without_progress, partitions_unknown,
  oldest_commit_after, oldest_commit_before, is_simple, told_at, not_consumed_max, held_up_min, partitions_held_up
FROM timed
WHERE CAST(:at_least AS BIGINT) IS NULL OR seconds_min >= :at_least
ORDER BY lag_max DESC, lag_min DESC, cluster, group_id
