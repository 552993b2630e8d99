-- How full are log directories, and what fills them?
-- At the window's end, as each broker told it last within the window (enrich: log_dirs): first the directories, the least
-- usable part first, then replicas that move, then the ten largest topics and partitions of each directory. skew: size of
-- the directory by the median of the cluster's. share: of the bytes of its directory. A directory that failed has no sizes.
-- theme: brokers
WITH dirs AS (
  SELECT cluster_id, cluster, broker_id, log_dir, is_online, total_bytes
  FROM silver.log_dirs
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
),

sizes AS (
  SELECT *
  FROM gold.storage
  WHERE first_at <= CAST(:until AS TIMESTAMP) AND day >= CAST(CAST(:since AS TIMESTAMP) AS DATE)
),

-- Of a day, all directories and topics are told with the first answer of their broker.
newest AS (
  SELECT cluster_id, cluster, broker_id, max(day) AS day, max(last_at) AS told_at
  FROM sizes
  WHERE level = 'log_dir'
  GROUP BY cluster_id, cluster, broker_id
),

told AS (
  SELECT s.*, n.told_at,
    row_number() OVER (
      PARTITION BY s.cluster_id, s.cluster, s.broker_id, s.log_dir, s.level
      ORDER BY s.size_bytes DESC, s.topic, s.partition
    ) AS place
  FROM sizes s
  JOIN newest n
    ON n.cluster_id = s.cluster_id AND n.cluster = s.cluster AND n.broker_id = s.broker_id AND n.day = s.day
  -- What moves is told each time, and what was told before has moved.
  WHERE s.replicas > 0 AND (s.level <> 'future' OR s.last_at = n.told_at)
    AND (CAST(:topic AS STRING) IS NULL OR s.topic = :topic)
),

whole AS (
  SELECT d.cluster_id, d.cluster, d.broker_id, d.log_dir, d.is_online, d.total_bytes, s.usable_bytes,
    s.size_bytes, s.replicas, s.futures, n.told_at,
    median(s.size_bytes) OVER (PARTITION BY d.cluster_id, d.cluster) AS median_bytes
  FROM dirs d
  LEFT JOIN newest n ON n.cluster_id = d.cluster_id AND n.cluster = d.cluster AND n.broker_id = d.broker_id
  LEFT JOIN sizes s
    ON d.is_online AND s.cluster_id = d.cluster_id AND s.cluster = d.cluster AND s.broker_id = d.broker_id
      AND s.log_dir = d.log_dir AND s.day = n.day AND s.level = 'log_dir'
)

SELECT w.cluster, w.broker_id, w.log_dir, 'log_dir' AS level, CAST(NULL AS STRING) AS topic,
  CAST(NULL AS INT) AS partition, IF(w.is_online, 'online', IF(NOT w.is_online, 'failed', NULL)) AS state, w.size_bytes,
  CAST(NULL AS DOUBLE) AS share, CASE WHEN w.median_bytes > 0 THEN w.size_bytes / w.median_bytes END AS skew,
  w.replicas, w.futures, CAST(NULL AS BIGINT) AS offset_lag, w.total_bytes, w.usable_bytes,
  CASE WHEN w.total_bytes > 0 THEN w.usable_bytes / w.total_bytes END AS usable, w.told_at, 1 AS place
FROM whole w
WHERE CAST(:topic AS STRING) IS NULL
  AND (CAST(:cluster AS STRING) IS NULL OR w.cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR w.broker_id = :broker)
UNION ALL
SELECT t.cluster, t.broker_id, t.log_dir, t.level, t.topic, t.partition, 'online', t.size_bytes,
  CASE WHEN w.size_bytes > 0 THEN t.size_bytes / w.size_bytes END, NULL, t.replicas, NULL, t.offset_lag, NULL, NULL, NULL,
  t.told_at, t.place
FROM told t
JOIN whole w
  ON w.is_online AND w.cluster_id = t.cluster_id AND w.cluster = t.cluster AND w.broker_id = t.broker_id
    AND w.log_dir = t.log_dir
WHERE t.level <> 'log_dir' AND (t.level = 'future' OR t.place <= 10)
  AND (CAST(:cluster AS STRING) IS NULL OR t.cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR t.broker_id = :broker)
ORDER BY cluster, CASE level WHEN 'log_dir' THEN 1 WHEN 'future' THEN 2 WHEN 'topic' THEN 3 ELSE 4 END,
  state, coalesce(usable, 2), broker_id, log_dir, place
