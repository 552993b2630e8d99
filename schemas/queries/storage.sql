-- How full are log directories, and what fills them?
-- At the window's end, as each broker answered last within the window (enrich: log_dirs), at answered_at: first directories,
-- the least usable part first, then replicas that move, then the ten largest topics and partitions of each directory.
-- min_bytes and max_bytes: the least and the greatest size of the last day (UTC). If the window ends within a day that
-- went on, sizes are the last that are known to be of before its end, mostly those of the day before, and the day's bounds
-- have its later hours in them too. skew: size of the directory by the median of the cluster's. share: of the bytes of its
-- directory. A directory that failed has no sizes. state is null if it was online, and its broker has not answered in
-- the window, or if the broker answers with another error.
-- theme: brokers
WITH dirs AS (
  SELECT cluster_id, cluster, broker_id, log_dir, is_online, total_bytes
  FROM silver.log_dirs
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
),

sizes AS (
  SELECT *
  FROM gold.storage
  WHERE first_at <= CAST(:until AS TIMESTAMP) AND day >= date_sub(CAST(CAST(:since AS TIMESTAMP) AS DATE), 1)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
),

-- The first answer of a broker on a day has all its directories and topics.
newest AS (
  SELECT cluster_id, cluster, broker_id, max(day) AS day, max(last_at) AS answered_at
  FROM sizes
  WHERE level = 'log_dir' AND day >= CAST(CAST(:since AS TIMESTAMP) AS DATE)
  GROUP BY cluster_id, cluster, broker_id
),

-- The last size of a day may be of after the window.
by_then AS (
  SELECT *, row_number() OVER (
      PARTITION BY cluster_id, cluster, broker_id, log_dir, level, topic, partition ORDER BY day DESC
    ) AS age
  FROM sizes
  WHERE last_at <= CAST(:until AS TIMESTAMP)
),

known AS (
  SELECT s.cluster_id, s.cluster, s.broker_id, s.log_dir, s.level, s.topic, s.partition, s.min_bytes, s.max_bytes,
    s.whole_at, s.last_at, n.answered_at AS broker_answered_at,
    IF(n.answered_at <= CAST(:until AS TIMESTAMP), n.answered_at, t.last_at) AS answered_at,
    t.size_bytes, t.replicas, t.futures, t.offset_lag, t.usable_bytes
  FROM sizes s
  JOIN newest n
    ON n.cluster_id = s.cluster_id AND n.cluster = s.cluster AND n.broker_id = s.broker_id AND n.day = s.day
  LEFT JOIN by_then t
    ON t.age = 1 AND t.day >= date_sub(s.day, 1) AND t.cluster_id = s.cluster_id AND t.cluster = s.cluster
      AND t.broker_id = s.broker_id AND t.log_dir = s.log_dir AND t.level = s.level
      AND coalesce(t.topic, '') = coalesce(s.topic, '') AND coalesce(t.partition, -1) = coalesce(s.partition, -1)
),

whole AS (
  SELECT d.cluster_id, d.cluster, d.broker_id, d.log_dir, d.is_online, d.total_bytes, s.usable_bytes,
    s.size_bytes, s.min_bytes, s.max_bytes, s.replicas, s.futures,
    IF(s.whole_at <= CAST(:until AS TIMESTAMP), s.whole_at, NULL) AS whole_at,
    IF(d.is_online, s.answered_at, n.answered_at) AS answered_at, n.answered_at IS NOT NULL AS is_known,
    median(s.size_bytes) OVER (PARTITION BY d.cluster_id, d.cluster) AS median_bytes
  FROM dirs d
  LEFT JOIN newest n ON n.cluster_id = d.cluster_id AND n.cluster = d.cluster AND n.broker_id = d.broker_id
  LEFT JOIN known s
    ON d.is_online AND s.cluster_id = d.cluster_id AND s.cluster = d.cluster AND s.broker_id = d.broker_id
      AND s.log_dir = d.log_dir AND s.level = 'log_dir'
),

inside AS (
  SELECT k.*, CASE WHEN w.size_bytes > 0 THEN k.size_bytes / w.size_bytes END AS share,
    row_number() OVER (
      PARTITION BY k.cluster_id, k.cluster, k.broker_id, k.log_dir, k.level
      ORDER BY coalesce(k.size_bytes, k.max_bytes) DESC, k.topic, k.partition
    ) AS place
  FROM known k
  JOIN whole w
    ON w.is_online AND w.cluster_id = k.cluster_id AND w.cluster = k.cluster AND w.broker_id = k.broker_id
      AND w.log_dir = k.log_dir
  WHERE k.level <> 'log_dir' AND coalesce(k.replicas, 1) > 0
    -- An answer with all topics did not have it any more: it is gone, though nobody saw it go.
    AND (w.whole_at IS NULL OR k.last_at >= w.whole_at)
    -- What moves is in each answer: what is in an older one alone has moved.
    AND (k.level <> 'future' OR k.last_at = k.broker_answered_at OR k.last_at > CAST(:until AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR k.topic = :topic)
)

SELECT w.cluster, w.broker_id, w.log_dir, 'log_dir' AS level, CAST(NULL AS STRING) AS topic,
  CAST(NULL AS INT) AS partition, CASE WHEN NOT w.is_online THEN 'failed'
    WHEN w.is_online AND w.is_known THEN 'online' END AS state, w.size_bytes,
  w.min_bytes, w.max_bytes, CAST(NULL AS DOUBLE) AS share,
  CASE WHEN w.median_bytes > 0 THEN w.size_bytes / w.median_bytes END AS skew,
  w.replicas, w.futures, CAST(NULL AS BIGINT) AS offset_lag, w.total_bytes, w.usable_bytes,
  CASE WHEN w.total_bytes > 0 THEN w.usable_bytes / w.total_bytes END AS usable, w.answered_at, 1 AS place
FROM whole w
WHERE CAST(:topic AS STRING) IS NULL
  AND (CAST(:broker AS INT) IS NULL OR w.broker_id = :broker)
UNION ALL
SELECT cluster, broker_id, log_dir, level, topic, partition, 'online', size_bytes, min_bytes, max_bytes, share, NULL,
  replicas, NULL, offset_lag, NULL, NULL, NULL, answered_at, place
FROM inside
WHERE (level = 'future' OR place <= 10)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
ORDER BY cluster, CASE level WHEN 'log_dir' THEN 1 WHEN 'future' THEN 2 WHEN 'topic' THEN 3 ELSE 4 END,
  CASE state WHEN 'failed' THEN 1 WHEN 'online' THEN 3 ELSE 2 END, coalesce(usable, 2), broker_id, log_dir, place
