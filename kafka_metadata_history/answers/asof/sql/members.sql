-- A group and its members: as its coordinator described it (enrichment groups), or else by the last rebalance that the
-- coordinators' log, or polls, tell.
WITH described AS (
  SELECT cluster, group_type, state, assignor, group_epoch AS generation, members
  FROM silver.group_snapshots
  WHERE {of_cluster} AND {then} AND group_id = :group
),

lives AS (
  SELECT DISTINCT cluster
  FROM gold.group_lives
  WHERE {of_cluster} AND group_id = :group AND valid_from <= CAST(:at AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:at AS TIMESTAMP))
),

rebalances AS (
  SELECT cluster, group_type, assignor, generation, id, members,
    ended_before IS NULL OR ended_before > CAST(:at AS TIMESTAMP) AS is_open
  FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster ORDER BY began_before DESC, id DESC) AS place
    FROM internal.rebalances
    WHERE {of_cluster} AND group_id = :group AND began_before <= CAST(:at AS TIMESTAMP)
  )
  WHERE place = 1
),

groups AS (
  SELECT coalesce(d.cluster, l.cluster) AS cluster, coalesce(d.group_type, r.group_type) AS group_type,
    coalesce(d.state, CASE WHEN r.is_open THEN 'rebalancing' WHEN r.members = 0 THEN 'Empty'
      WHEN r.members > 0 THEN 'Stable' END) AS state,
    coalesce(d.assignor, r.assignor) AS assignor, coalesce(d.generation, r.generation) AS generation
  FROM described d
  FULL OUTER JOIN lives l ON l.cluster = d.cluster
  LEFT JOIN rebalances r ON r.cluster = coalesce(d.cluster, l.cluster)
),

members AS (
  SELECT cluster, member.member_id, member.instance_id, member.client_id, member.client_host,
    transform(member.assigned, each ->
      struct(each.topic AS topic, each.topic_id AS topic_id, each.partitions AS partitions)) AS assigned,
    member.active_tasks AS tasks
  FROM (SELECT cluster, explode(members) AS member FROM described)
  UNION ALL
  SELECT m.cluster, m.member_id, m.instance_id, m.client_id, m.client_host, m.after, NULL
  FROM gold.rebalance_members m
  JOIN rebalances r ON r.cluster = m.cluster AND r.id = m.rebalance_id
  WHERE m.group_id = :group AND m.change <> 'left'
    AND m.cluster NOT IN (SELECT cluster FROM described WHERE members IS NOT NULL)
)

SELECT g.cluster, g.group_type, g.state, g.assignor, g.generation, c.broker_id AS coordinator, b.lag_min, b.lag_max,
  m.member_id, m.instance_id, m.client_id, m.client_host, m.assigned, m.tasks
FROM groups g
LEFT JOIN members m ON m.cluster = g.cluster
LEFT JOIN (
  SELECT cluster, max_by(broker_id, valid_from) AS broker_id
  FROM gold.group_coordinators
  WHERE {of_cluster} AND group_id = :group AND valid_from <= CAST(:at AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:at AS TIMESTAMP))
  GROUP BY cluster
) c ON c.cluster = g.cluster
LEFT JOIN (
  SELECT cluster, max_by(lag_min, valid_from) AS lag_min, max_by(lag_max, valid_from) AS lag_max
  FROM gold.group_lag
  WHERE {of_cluster} AND group_id = :group AND valid_from <= CAST(:at AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:at AS TIMESTAMP))
  GROUP BY cluster
) b ON b.cluster = g.cluster
ORDER BY g.cluster, m.client_id, m.member_id
