-- What changed after the first poll, one row for each poll, kind of change and broker.
WITH partition_changes AS (
  SELECT *, topic || '-' || partition AS name
  FROM silver.partition_snapshots
  WHERE prev_leader IS NOT NULL
),

brokers AS (
  SELECT valid_to AS at, 'broker left' AS what, broker_id, NULL AS partitions,
    host || ':' || port AS before, 'not listed' AS after, NULL AS example
  FROM silver.broker_snapshots
  WHERE end_reason IS NOT NULL
  UNION ALL
  SELECT valid_from, 'broker joined', broker_id, NULL, 'not listed', host || ':' || port, NULL
  FROM silver.broker_snapshots
  WHERE prev_poll IS NOT NULL AND prev_host IS NULL
),

leaders AS (
  SELECT valid_from AS at,
    CASE WHEN leader = -1 THEN 'leader lost' WHEN prev_leader = -1 THEN 'leader found' ELSE 'leader moved' END AS what,
    CASE WHEN prev_leader = -1 THEN leader ELSE prev_leader END AS broker_id,
    count(*) AS partitions,
    CASE WHEN prev_leader = -1 THEN 'none' ELSE CAST(prev_leader AS STRING) END AS before,
    array_join(array_sort(collect_set(CASE WHEN leader = -1 THEN 'none' ELSE CAST(leader AS STRING) END)), ' or ') AS after,
    min(name) AS example
  FROM partition_changes
  WHERE leader <> prev_leader
  GROUP BY ALL
),

isr_members AS (
  SELECT valid_from AS at, 'ISR lost a broker' AS what, explode(array_except(prev_isr, isr)) AS broker_id,
    prev_isr, isr, name
  FROM partition_changes
  UNION ALL
  SELECT valid_from, 'ISR got a broker', explode(array_except(isr, prev_isr)), prev_isr, isr, name
  FROM partition_changes
),

isrs AS (
  SELECT at, what, broker_id, count(*) AS partitions,
    min_by('{' || array_join(CAST(prev_isr AS ARRAY<STRING>), ',') || '}', name) AS before,
    min_by('{' || array_join(CAST(isr AS ARRAY<STRING>), ',') || '}', name) AS after,
    min(name) AS example
  FROM isr_members
  GROUP BY at, what, broker_id
),

reassigned AS (
  SELECT valid_from AS at, 'replicas changed' AS what, NULL AS broker_id, 1 AS partitions,
    '[' || array_join(CAST(prev_replicas AS ARRAY<STRING>), ',') || ']' AS before,
    '[' || array_join(CAST(replicas AS ARRAY<STRING>), ',') || ']' AS after,
    name AS example
  FROM partition_changes
  WHERE replicas <> prev_replicas
),

topics AS (
  SELECT ended.valid_to AS at,
    CASE ended.end_reason WHEN 'recreated' THEN 'topic recreated' ELSE 'topic deleted' END AS what,
    NULL AS broker_id, ended.partition_count AS partitions, 'id ' || ended.topic_id AS before,
    coalesce('id ' || next.topic_id, 'gone') AS after, ended.topic AS example
  FROM silver.topic_snapshots ended
  LEFT JOIN silver.topic_snapshots next
    ON next.cluster_id = ended.cluster_id AND next.topic = ended.topic AND next.first_poll = ended.superseded_poll
  WHERE ended.end_reason IN ('recreated', 'gone')
  UNION ALL
  SELECT new.valid_from, 'topic created', NULL, new.partition_count, 'none', 'id ' || new.topic_id, new.topic
  FROM silver.topic_snapshots new
  LEFT ANTI JOIN silver.topic_snapshots old
    ON old.cluster_id = new.cluster_id AND old.topic = new.topic AND old.superseded_poll = new.first_poll
  WHERE new.prev_poll IS NOT NULL AND new.prev_partition_count IS NULL
)

SELECT date_format(at, "HH:mm:ss.SSS'Z'") AS time, what, partitions, before, after, broker_id AS broker, example
FROM (
  SELECT * FROM brokers
  UNION ALL SELECT * FROM leaders
  UNION ALL SELECT * FROM isrs
  UNION ALL SELECT * FROM reassigned
  UNION ALL SELECT * FROM topics
)
ORDER BY at, CASE split(what, ' ')[0] WHEN 'broker' THEN 1 WHEN 'ISR' THEN 2 WHEN 'leader' THEN 3 ELSE 4 END, what, broker_id
