-- Which groups are behind, and since when?
-- At the window's end, the largest lag first. By what polls asked of offsets (enrich: offsets). --at-least leaves out
-- those that were behind for less.
WITH told AS (
  SELECT *,
    coalesce(valid_to <= CAST(:until AS TIMESTAMP) AND end_reason IS NOT NULL, false) AS is_over,
    -- Of a row in which the group was not behind, and which another one follows.
    lag(CASE WHEN partitions_behind = 0 AND partitions_unknown = 0 AND end_reason IS NULL THEN last_seen_at END)
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
    max_by(partitions_without_progress, first_poll) AS partitions_without_progress,
    max_by(partitions_unknown, first_poll) AS partitions_unknown,
    max_by(oldest_commit_after, first_poll) AS oldest_commit_after,
    max_by(oldest_commit_before, first_poll) AS oldest_commit_before,
    max_by(is_simple, first_poll) AS is_simple,
    max_by(valid_from, first_poll) AS told_at
  FROM (
    SELECT *,
      max(CASE WHEN is_over OR (partitions_behind = 0 AND partitions_unknown = 0) THEN first_poll END)
        OVER (PARTITION BY cluster_id, cluster, group_id) AS last_poll
    FROM told
  )
  WHERE last_poll IS NULL OR first_poll > last_poll
  GROUP BY cluster_id, cluster, group_id
)

SELECT cluster, group_id, burrow_status, lag_min, lag_max, began_after, began_before,
  (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(began_before)) / 1e6 AS seconds_min,
  (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(began_after)) / 1e6 AS seconds_max,
  largest_lag_max, partitions, partitions_behind, partitions_without_progress, partitions_unknown,
  oldest_commit_after, oldest_commit_before, is_simple, told_at
FROM behind
WHERE CAST(:at_least AS BIGINT) IS NULL
  OR unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(began_before) >= :at_least * 1000000
ORDER BY lag_max DESC, lag_min DESC, cluster, group_id
