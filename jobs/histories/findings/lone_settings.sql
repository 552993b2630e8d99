-- A broker is set otherwise than all others: one value of one broker, where at least two others have another one, or
-- none. topic: the name of the setting.
WITH brokers AS (
  SELECT cluster_id, cluster, broker_id FROM {silver.broker_registrations} WHERE is_current
),

settings AS (
  SELECT b.cluster_id, b.cluster, b.broker_id, n.name, coalesce(c.value, '') AS value, c.valid_from
  FROM brokers b
  JOIN (
    SELECT DISTINCT cluster_id, name FROM {silver.configs}
    WHERE is_current AND resource_type = 4 AND resource_name <> '' AND value IS NOT NULL
      AND name NOT LIKE '%.throttled.%'
  ) n ON n.cluster_id = b.cluster_id
  LEFT JOIN {silver.configs} c
    ON c.is_current AND c.resource_type = 4 AND c.cluster_id = b.cluster_id AND c.name = n.name
      AND c.resource_name = CAST(b.broker_id AS STRING)
)

SELECT 'lone_setting' AS kind, cluster_id, cluster, broker_id, array(broker_id) AS brokers, name AS topic, 'log' AS source,
  since AS began_after, since AS began_before
FROM (
  SELECT *, count(*) OVER (PARTITION BY cluster_id, name) AS all_brokers,
    count(*) OVER (PARTITION BY cluster_id, name, value) AS alike,
    max(valid_from) OVER (PARTITION BY cluster_id, name) AS since
  FROM settings
)
WHERE alike = 1 AND all_brokers >= 3 AND since IS NOT NULL
