-- How much of a budget of bad seconds was spent?
-- Metadata availability of each cluster, then of its ten worst topics: seconds of partitions that could not be read (no
-- leader) or written (no leader, or under min ISR), the worst first. budget_s is what an objective of --slo percent
-- (99.9 unless given) allows of the seconds that somebody observed; what is left may be below zero. marked_s is how
-- much of what was spent lies in windows of gold.marks; it is not subtracted. not_observed_s is in no other column. Days
-- are whole, in UTC. A leader that hangs looks well until it is fenced.
-- theme: partitions
WITH days AS (
  SELECT cluster, topic, partition_s_min, not_observed_s,
    bad_for_reads_s_min, bad_for_reads_s_max, bad_for_writes_s_min, bad_for_writes_s_max,
    marked_bad_for_reads_s_min, marked_bad_for_reads_s_max, marked_bad_for_writes_s_min, marked_bad_for_writes_s_max
  FROM gold.availability
  WHERE day >= CAST(CAST(:since AS TIMESTAMP) AS DATE)
    AND day <= CAST(CAST(:until AS TIMESTAMP) - INTERVAL '1' MICROSECOND AS DATE)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  UNION ALL
  -- After the last observation.
  SELECT cluster, topic, 0, partition_count * greatest(0, unix_micros(until) - unix_micros(since)) / 1e6,
    0, 0, 0, 0, 0, 0, 0, 0
  FROM (
    SELECT t.cluster, t.topic, t.partition_count,
      greatest(t.valid_from, o.until, CAST(CAST(CAST(:since AS TIMESTAMP) AS DATE) AS TIMESTAMP)) AS since,
      least(coalesce(t.valid_to, CAST(:until AS TIMESTAMP)), CAST(:until AS TIMESTAMP)) AS until
    FROM silver.topic_snapshots t
    LEFT JOIN silver.observed o
      ON o.cluster_id = t.cluster_id AND o.cluster = t.cluster AND o.history = 'isr_shrink'
    WHERE (CAST(:cluster AS STRING) IS NULL OR t.cluster = :cluster)
      AND (CAST(:topic AS STRING) IS NULL OR t.topic = :topic)
  )
),

-- Null where a day of it is not known.
sums AS (
  SELECT cluster, topic, sum(partition_s_min) AS seconds, sum(not_observed_s) AS not_observed_s,
    sum(bad_for_reads_s_min) AS reads_min,
    IF(count(bad_for_reads_s_max) = count(*), sum(bad_for_reads_s_max), NULL) AS reads_max,
    sum(bad_for_writes_s_min) AS writes_min,
    IF(count(bad_for_writes_s_max) = count(*), sum(bad_for_writes_s_max), NULL) AS writes_max,
    sum(marked_bad_for_reads_s_min) AS marked_reads_min,
    IF(count(marked_bad_for_reads_s_max) = count(*), sum(marked_bad_for_reads_s_max), NULL) AS marked_reads_max,
    sum(marked_bad_for_writes_s_min) AS marked_writes_min,
    IF(count(marked_bad_for_writes_s_max) = count(*), sum(marked_bad_for_writes_s_max), NULL) AS marked_writes_max
  FROM days
  GROUP BY GROUPING SETS ((cluster, topic), (cluster))
),

spent AS (
  SELECT *, seconds * (100 - coalesce(CAST(:slo AS DOUBLE), 99.9)) / 100 AS budget_s,
    spent_s_max / seconds AS share,
    row_number() OVER (PARTITION BY topic IS NULL ORDER BY spent_s_max / seconds DESC NULLS LAST, cluster, topic, bad_for)
      AS place
  FROM (
    SELECT cluster, topic, seconds, not_observed_s,
      inline(array(
        struct('reads' AS bad_for, reads_min AS spent_s_min, reads_max AS spent_s_max,
          marked_reads_min AS marked_s_min, marked_reads_max AS marked_s_max),
        struct('writes' AS bad_for, writes_min AS spent_s_min, writes_max AS spent_s_max,
          marked_writes_min AS marked_s_min, marked_writes_max AS marked_s_max)))
    FROM sums
    WHERE seconds > 0 OR not_observed_s > 0
  )
)

SELECT cluster, topic, bad_for, budget_s, spent_s_min, spent_s_max, budget_s - spent_s_max AS left_s_min,
  budget_s - spent_s_min AS left_s_max, marked_s_min, marked_s_max, not_observed_s
FROM spent
WHERE topic IS NULL OR CAST(:topic AS STRING) IS NOT NULL OR (spent_s_max > 0 AND place <= 10)
ORDER BY topic IS NOT NULL, place
