-- A broker is the next one if it was lost at most 15 minutes after the one before it was lost, or within 15 minutes of
-- when that one was back.
WITH stops AS (
  SELECT *,
    lag(began_before) OVER (PARTITION BY cluster_id ORDER BY began_before, broker_id) AS lost_before,
    lag(ended_before) OVER (PARTITION BY cluster_id ORDER BY began_before, broker_id) AS back_before
  FROM {gold.broker_incidents}
  WHERE array_contains(causes, 'broker_down')
),

numbered AS (
  SELECT *, count_if(NOT follows) OVER (PARTITION BY cluster_id ORDER BY began_before, broker_id) AS number
  FROM (
    SELECT *,
      coalesce(began_before <= lost_before + INTERVAL '15' MINUTE
        OR began_before BETWEEN back_before - INTERVAL '15' MINUTE AND back_before + INTERVAL '15' MINUTE, false)
        AS follows
    FROM stops
  )
),

steps AS (
  SELECT *,
    first_value(id) OVER (PARTITION BY cluster_id, number ORDER BY began_before, broker_id) AS restart_id,
    CAST(row_number() OVER (PARTITION BY cluster_id, number ORDER BY began_before, broker_id) AS INT) AS step,
    min(broker_id) OVER whole < max(broker_id) OVER whole
      AND min(began_before) OVER whole < max(began_before) OVER whole AS is_rolling
  FROM numbered
  WINDOW whole AS (PARTITION BY cluster_id, number)
)

SELECT restart_id, step, id, cluster_id, cluster, broker_id, rack, began_after, began_before, ended_after, ended_before
FROM steps
WHERE is_rolling
