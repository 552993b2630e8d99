-- Is each cluster still polled? The age of its last good poll at :until, and its polls in [:since, :until].
WITH polls AS (
  SELECT cluster,
    count(*) AS polls,
    count_if(outcome = 'failed') AS failed_polls,
    max(CASE WHEN outcome = 'ok' THEN received_at END) AS good_at,
    max_by(interval_ms, poll_id) AS interval_ms,
    max_by(error_kind, poll_id) FILTER (WHERE outcome = 'failed') AS last_error_kind
  FROM bronze.metadata_polls
  WHERE record = 'poll' AND scheduled_at BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  GROUP BY cluster
),

-- What came before :since, or is not in bronze any more.
applied AS (
  SELECT cluster,
    CASE WHEN applied_at <= CAST(:until AS TIMESTAMP) THEN applied_at END AS good_at,
    applied_interval_ms AS interval_ms
  FROM silver.progress
),

clusters AS (
  SELECT cluster,
    greatest(polls.good_at, applied.good_at) AS last_good_poll_at,
    coalesce(polls.interval_ms, applied.interval_ms) / 1000 AS interval_s,
    coalesce(polls.polls, 0) AS polls,
    coalesce(polls.failed_polls, 0) AS failed_polls,
    polls.last_error_kind
  FROM polls FULL OUTER JOIN applied USING (cluster)
),

ages AS (
  SELECT *, CAST(CAST(:until AS TIMESTAMP) AS DOUBLE) - CAST(last_good_poll_at AS DOUBLE) AS age_s
  FROM clusters
)

SELECT cluster, last_good_poll_at, age_s, interval_s, polls, failed_polls, last_error_kind,
  -- Never a good poll is late too.
  CASE WHEN age_s <= 2 * interval_s THEN 'ok' ELSE 'late' END AS status
FROM ages
ORDER BY status, cluster
