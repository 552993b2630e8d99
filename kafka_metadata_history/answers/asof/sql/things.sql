-- All that may differ between two states: a row each. A thing has a row whose `what` is its `kind`, and rows for its
-- attributes. No row: it is not there, or not known. `source`: the one without which nobody knows.
WITH brokers AS (
{brokers}
),

settings AS (
{settings}
),

groups AS (
  SELECT cluster_id, cluster, group_id, valid_from, group_type, assignor
  FROM silver.group_snapshots
  WHERE {of_cluster} AND {then}
  UNION ALL
  -- Its type is the last one, not that of then.
  SELECT cluster_id, cluster, group_id, valid_from, NULL, NULL
  FROM gold.group_lives
  WHERE {of_cluster} AND valid_from <= CAST(:at AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:at AS TIMESTAMP))
)

SELECT cluster, 'broker' AS kind, CAST(broker_id AS STRING) AS name, CAST(NULL AS STRING) AS part, what, value, source
FROM (
  SELECT cluster, broker_id, inline(array(
    struct('broker' AS what, state AS value, CASE WHEN state = 'fenced' THEN 'fenced' END AS source, true AS is_known),
    struct('rack' AS what, rack AS value, CAST(NULL AS STRING) AS source, true AS is_known),
    struct('address' AS what, address AS value, CAST(NULL AS STRING) AS source, address IS NOT NULL AS is_known),
    struct('incarnation' AS what, incarnation_id AS value, 'log' AS source, incarnation_id IS NOT NULL AS is_known)
  ))
  FROM brokers
)
WHERE is_known
UNION ALL
SELECT cluster, 'rack', rack, NULL, 'rack', rack, NULL
FROM brokers
WHERE rack IS NOT NULL
GROUP BY cluster, rack
UNION ALL
SELECT cluster, 'topic', topic, NULL, what, value, NULL
FROM (
  SELECT cluster, topic, inline(array(
    struct('topic' AS what, '' AS value),
    struct('topic id' AS what, topic_id AS value),
    struct('partitions' AS what, CAST(partition_count AS STRING) AS value)
  ))
  FROM silver.topic_snapshots
  WHERE {of_cluster} AND {then}
)
WHERE value IS NOT NULL
UNION ALL
SELECT cluster, 'setting', resource_name, concat(CAST(resource_type AS STRING), ' ', name), 'setting', value, source
FROM settings
UNION ALL
SELECT cluster, 'feature', name, NULL, 'feature', CAST(max_by(level, place) AS STRING), max_by(source, place)
FROM (
  SELECT 2 AS place, 'log' AS source, cluster, name, level
  FROM silver.features
  WHERE {of_cluster} AND {then}
  UNION ALL
  SELECT 1, NULL, cluster, name, level
  FROM (
    SELECT cluster, inline(array(
      struct('metadata.version' AS name, metadata_version_level AS level),
      struct('eligible.leader.replicas.version' AS name, elr_version_level AS level)
    ))
    FROM silver.cluster_snapshots
    WHERE {of_cluster} AND {then}
  )
)
WHERE level IS NOT NULL
GROUP BY cluster, name
UNION ALL
SELECT cluster, 'quorum', '', NULL, what, value, NULL
FROM (
  SELECT cluster, inline(array(
    struct('active controller' AS what, CAST(controller_id AS STRING) AS value),
    struct('voters' AS what, CAST(voters AS STRING) AS value)
  ))
  FROM silver.quorum
  WHERE {of_cluster} AND {then}
)
UNION ALL
SELECT cluster, 'leads', CAST(leader AS STRING), NULL, 'leads', CAST(count(*) AS STRING), NULL
FROM silver.partition_snapshots
WHERE {of_cluster} AND {then} AND leader >= 0
GROUP BY cluster, leader
UNION ALL
SELECT cluster, 'group', group_id, NULL, what, value, 'groups'
FROM (
  SELECT g.cluster, g.group_id, inline(array(
    struct('group' AS what, '' AS value),
    struct('type' AS what, coalesce(max(g.group_type), max_by(r.group_type, r.began_before)) AS value),
    struct('assignor' AS what, coalesce(max(g.assignor), max_by(r.assignor, r.began_before)) AS value)
  ))
  FROM groups g
  LEFT JOIN internal.rebalances r
    ON r.cluster_id = g.cluster_id AND r.group_id = g.group_id AND r.end_reason = 'completed'
      AND r.ended_before >= g.valid_from AND r.ended_before <= CAST(:at AS TIMESTAMP)
  GROUP BY g.cluster, g.group_id
)
WHERE value IS NOT NULL
UNION ALL
-- A reassignment that runs, and adds replicas, counts as done.
SELECT p.cluster, 'topic', p.topic, CAST(p.partition AS STRING), 'replicas',
  CAST(CASE WHEN size(r.adding_replicas) > 0
    THEN filter(p.replicas, each -> NOT array_contains(r.removing_replicas, each)) ELSE p.replicas END AS STRING),
  NULL
FROM (
  SELECT * FROM silver.partition_snapshots
  WHERE {of_cluster} AND {then} AND ({changes}) AND replicas IS NOT NULL
) p
LEFT JOIN (SELECT * FROM silver.reassignments WHERE {of_cluster} AND {then}) r
  ON r.cluster_id = p.cluster_id AND r.topic = p.topic AND r.partition = p.partition
