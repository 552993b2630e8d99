-- How fast do log directories grow, and when are they full?
-- By the greatest size of each day of the window or of seven days, whichever is longer. A day that was not over by the
-- window's end counts if it had reached more than all before. A rate is the mean rise to the last of these days from one
-- before it: the least and the greatest. not_answered_since: the broker's last answer, where others have answered since,
-- or nobody has for a day: all is as of then. unknown says why nothing is said of days until full: failed | error
-- (another one) | not_answered (for a day) | no_volume (before Kafka 3.3) | few_days (fewer than three) | levelled_off
-- (it rose by no more than a hundredth of what is left: retention keeps up). Who else fills the volume is not counted.
-- theme: brokers
WITH answered AS (
  SELECT cluster_id, cluster, broker_id, log_dir, day, max_bytes, usable_bytes, last_at,
    day < CAST(CAST(:until AS TIMESTAMP) AS DATE) AS is_over
  FROM gold.storage
  WHERE level = 'log_dir'
    AND day >= CAST(least(CAST(:since AS TIMESTAMP), CAST(:until AS TIMESTAMP) - INTERVAL '7' DAY) AS DATE)
    -- Of a day that went on, sizes are of after the window.
    AND (last_at <= CAST(:until AS TIMESTAMP) OR day < CAST(CAST(:until AS TIMESTAMP) AS DATE))
),

days AS (
  SELECT *
  FROM (
    SELECT *, max(IF(is_over, max_bytes, NULL)) OVER (PARTITION BY cluster_id, cluster, broker_id, log_dir) AS most_before
    FROM answered
    WHERE max_bytes IS NOT NULL
  )
  WHERE is_over OR max_bytes > most_before
),

ends AS (
  SELECT cluster_id, cluster, broker_id, log_dir, count(*) AS days, max(day) AS last_day,
    max_by(max_bytes, day) AS last_bytes, min_by(max_bytes, day) AS first_bytes
  FROM days
  GROUP BY cluster_id, cluster, broker_id, log_dir
),

rates AS (
  SELECT d.cluster_id, d.cluster, d.broker_id, d.log_dir,
    min((e.last_bytes - d.max_bytes) / datediff(e.last_day, d.day)) AS rate_min,
    max((e.last_bytes - d.max_bytes) / datediff(e.last_day, d.day)) AS rate_max
  FROM days d
  JOIN ends e
    ON e.cluster_id = d.cluster_id AND e.cluster = d.cluster AND e.broker_id = d.broker_id AND e.log_dir = d.log_dir
  WHERE d.day < e.last_day
  GROUP BY d.cluster_id, d.cluster, d.broker_id, d.log_dir
),

newest AS (
  SELECT *, max(last_at) OVER (PARTITION BY cluster_id, cluster, broker_id) AS broker_answered_at,
    max(last_at) OVER (PARTITION BY cluster_id, cluster) AS cluster_answered_at,
    row_number() OVER (PARTITION BY cluster_id, cluster, broker_id, log_dir ORDER BY day DESC) AS age
  FROM answered
),

known AS (
  SELECT v.cluster, v.broker_id, v.log_dir, v.total_bytes, n.usable_bytes, coalesce(e.days, 0) AS days, e.last_bytes,
    r.rate_min, r.rate_max,
    IF(n.broker_answered_at < greatest(n.cluster_answered_at, CAST(:until AS TIMESTAMP) - INTERVAL '1' DAY),
      n.broker_answered_at, NULL) AS not_answered_since,
    CASE
      WHEN NOT v.is_online THEN 'failed'
      WHEN v.is_online IS NULL THEN 'error'
      WHEN n.broker_answered_at < CAST(:until AS TIMESTAMP) - INTERVAL '1' DAY THEN 'not_answered'
      WHEN v.total_bytes IS NULL THEN 'no_volume'
      WHEN n.usable_bytes = 0 THEN NULL
      WHEN coalesce(e.days, 0) < 3 THEN 'few_days'
      WHEN n.usable_bytes IS NULL THEN 'no_volume'
      WHEN e.last_bytes - e.first_bytes <= n.usable_bytes / 100 THEN 'levelled_off'
    END AS unknown
  FROM silver.log_dirs v
  LEFT JOIN ends e
    ON e.cluster_id = v.cluster_id AND e.cluster = v.cluster AND e.broker_id = v.broker_id AND e.log_dir = v.log_dir
  LEFT JOIN newest n
    ON v.is_online AND n.age = 1 AND n.cluster_id = v.cluster_id AND n.cluster = v.cluster
      AND n.broker_id = v.broker_id AND n.log_dir = v.log_dir
  LEFT JOIN rates r
    ON r.cluster_id = v.cluster_id AND r.cluster = v.cluster AND r.broker_id = v.broker_id AND r.log_dir = v.log_dir
  WHERE v.valid_from <= CAST(:until AS TIMESTAMP) AND (v.valid_to IS NULL OR v.valid_to > CAST(:until AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR v.cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR v.broker_id = :broker)
)

SELECT cluster, broker_id, log_dir, days, last_bytes, CAST(rate_min AS BIGINT) AS bytes_a_day_min,
  CAST(rate_max AS BIGINT) AS bytes_a_day_max, total_bytes, usable_bytes, not_answered_since,
  CASE
    WHEN unknown IS NOT NULL THEN NULL
    WHEN usable_bytes = 0 THEN 0.0
    ELSE usable_bytes / rate_max
  END AS days_until_full_min,
  CASE
    WHEN unknown IS NOT NULL THEN NULL
    WHEN usable_bytes = 0 THEN 0.0
    WHEN rate_min > 0 THEN usable_bytes / rate_min
  END AS days_until_full_max,
  unknown
FROM known
ORDER BY cluster, coalesce(days_until_full_min, 1e9), broker_id, log_dir
