-- Is each cluster still polled?
-- The age of its last good poll at the window's end, and its polls within the window. History of before history_from is
-- not there, or not all of it: nobody polled yet, or retention has dropped it.
-- theme: recording
WITH
-- Polls of an older stream than history has: it takes none of them.
judged AS (
  SELECT headers.*,
    coalesce(stream < array_max(map_keys(taken)) AND coalesce(n > taken[stream], true), false) AS is_ignored
  FROM bronze.metadata_polls AS headers LEFT JOIN (SELECT cluster, taken FROM internal.clusters) USING (cluster)
  WHERE record = 'poll' AND scheduled_at BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
),

polls AS (
  SELECT cluster,
    count(*) AS polls,
    count_if(is_ignored) AS ignored_polls,
    max_by(is_ignored, scheduled_at) AS last_is_ignored,
    count_if(outcome = 'failed') AS failed_polls,
    max(CASE WHEN outcome = 'ok' THEN received_at END) AS good_at,
    max_by(interval_ms, poll_id) AS interval_ms,
    max_by(error_kind, poll_id) FILTER (WHERE outcome = 'failed') AS last_error_kind
  FROM judged
  GROUP BY cluster
),

-- What came before :since, or is not in bronze any more.
applied AS (
  SELECT cluster,
    CASE WHEN last_seen_at <= CAST(:until AS TIMESTAMP) THEN last_seen_at END AS good_at,
    interval_ms,
    refused_polls,
    stale_polls
  FROM internal.clusters
),

clusters AS (
  SELECT cluster,
    greatest(polls.good_at, applied.good_at) AS last_good_poll_at,
    coalesce(polls.interval_ms, applied.interval_ms) / 1000 AS interval_s,
    coalesce(polls.polls, 0) AS polls,
    coalesce(polls.failed_polls, 0) AS failed_polls,
    coalesce(polls.ignored_polls, 0) AS ignored_polls,
    polls.last_is_ignored,
    coalesce(applied.refused_polls, 0) AS refused_polls,
    coalesce(applied.stale_polls, 0) AS stale_polls,
    polls.last_error_kind
  FROM polls FULL OUTER JOIN applied USING (cluster)
),

ages AS (
  SELECT *, (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(last_good_poll_at)) / 1e6 AS age_s
  FROM clusters
)

SELECT cluster,
  CASE
    -- Never a good poll is late too. Polls in which nothing is new show up once a minute.
    WHEN age_s IS NULL OR age_s > 2 * interval_s + 120 THEN 'late'
    -- Another job polled with another checkpoint since this one began, or a clock was ahead.
    WHEN last_is_ignored THEN 'ignored'
    -- Answers come, and history does not believe them: of another cluster than the alias names, or older than before.
    WHEN refused_polls > 0 THEN 'refused'
    WHEN stale_polls > 0 THEN 'stale'
    ELSE 'ok'
  END AS status,
  last_good_poll_at, age_s, interval_s, polls, failed_polls, last_error_kind, ignored_polls, refused_polls, stale_polls,
  greatest(silver_from, gold_from) AS history_from
FROM ages LEFT JOIN silver.reach USING (cluster)
WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
ORDER BY status, cluster
