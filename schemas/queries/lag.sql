-- Which groups are behind, and since when?
-- At the window's end, the largest lag first; also groups with a commit beyond the end of a log (partitions_beyond),
-- whose lag is negative. By what polls asked of offsets (enrich: offsets). --at-least leaves out those that were behind
-- for less. not_observed_s is for how many of the most seconds nobody asked: none of them is in the least.
-- theme: groups
WITH told AS (
  SELECT *,
    coalesce(valid_to <= CAST(:until AS TIMESTAMP) AND end_reason IS NOT NULL, false) AS is_over,
    -- Of a row in which the group was not behind, and which another one follows.
    lag(CASE WHEN partitions_behind + partitions_beyond + partitions_unknown = 0 AND end_reason IS NULL
      THEN last_seen_at END)
      OVER (PARTITION BY cluster_id, cluster, group_id ORDER BY first_poll) AS caught_up_at
  FROM gold.group_lag
  WHERE valid_from <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
),

-- Since the last row in which it was not behind, or since it is there.
behind AS (
  SELECT cluster_id, cluster, group_id,
    max_by(burrow_status, first_poll) AS burrow_status,
    max_by(lag_min, first_poll) AS lag_min,
    max_by(lag_max, first_poll) AS lag_max,
    max_by(largest_lag_max, first_poll) AS largest_lag_max,
    min_by(caught_up_at, first_poll) AS began_after,
    min(valid_from) AS began_before,
    max_by(partitions, first_poll) AS partitions,
    max_by(partitions_behind, first_poll) AS partitions_behind,
    max_by(partitions_beyond, first_poll) AS partitions_beyond,
    max_by(partitions_without_progress, first_poll) AS partitions_without_progress,
    max_by(partitions_unknown, first_poll) AS partitions_unknown,
    max_by(oldest_commit_after, first_poll) AS oldest_commit_after,
    max_by(oldest_commit_before, first_poll) AS oldest_commit_before,
    max_by(is_simple, first_poll) AS is_simple,
    max_by(valid_from, first_poll) AS told_at
  FROM (
    SELECT *,
      max(CASE WHEN is_over OR partitions_behind + partitions_beyond + partitions_unknown = 0 THEN first_poll END)
        OVER (PARTITION BY cluster_id, cluster, group_id) AS last_poll
    FROM told
  )
  WHERE last_poll IS NULL OR first_poll > last_poll
  GROUP BY cluster_id, cluster, group_id
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
  oldest_commit_after, oldest_commit_before, is_simple, told_at
FROM timed
WHERE CAST(:at_least AS BIGINT) IS NULL OR seconds_min >= :at_least
ORDER BY lag_max DESC, lag_min DESC, cluster, group_id
