-- How many partitions were at each level, from step to step; where there are too many steps, the most in each
-- cell.
WITH spans AS (
  SELECT level,
    greatest(began_before, CAST(:since AS TIMESTAMP)) AS sure_from,
    CASE WHEN ended_before IS NOT NULL THEN greatest(ended_after, began_before) END AS sure_until,
    greatest(coalesce(began_after, CAST(:since AS TIMESTAMP)), CAST(:since AS TIMESTAMP))
      AS maybe_from,
    ended_before AS maybe_until
  FROM gold.isr_episodes
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
),

edges AS (
  SELECT level, sure_from AS at, 1 AS sure, 0 AS maybe FROM spans
  UNION ALL SELECT level, greatest(sure_until, sure_from), -1, 0 FROM spans
    WHERE sure_until IS NOT NULL
  UNION ALL SELECT level, maybe_from, 0, 1 FROM spans
  UNION ALL SELECT level, maybe_until, 0, -1 FROM spans WHERE maybe_until IS NOT NULL
),

steps AS (SELECT level, at, sum(sure) AS sure, sum(maybe) AS maybe FROM edges GROUP BY level, at),

counts AS (
  SELECT level, at, sum(sure) OVER (PARTITION BY level ORDER BY at) AS sure,
    sum(maybe) OVER (PARTITION BY level ORDER BY at) AS maybe,
    CASE WHEN count(*) OVER () > :most_marks
      THEN unix_micros(at) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP)))
      ELSE unix_micros(at) END AS cell
  FROM steps
)

SELECT level, min(at) AS first_at, max(at) AS last_at,
  max(sure) AS most_sure, max(maybe) AS most_maybe,
  max_by(sure, at) AS last_sure, max_by(maybe, at) AS last_maybe
FROM counts
GROUP BY level, cell
ORDER BY level, first_at
