-- With the names of topics that are known by id alone, null where nothing tells them. They are looked up for the
-- members that are asked for: what is joined has their cluster, group and began_before, so that Spark skips files
-- there too.
WITH logged AS (
  SELECT cluster_id, group_id, min(valid_from) AS logged_from
  FROM {gold.group_lives}
  WHERE source = 'log'
  GROUP BY cluster_id, group_id
),

-- Polls tell of a group until its log does: the members of a rebalance that is hidden from there on are hidden too.
hidden AS (
  SELECT r.id, r.cluster_id, r.cluster, r.group_id, r.began_before
  FROM {internal.rebalances} r
  JOIN logged l ON l.cluster_id = r.cluster_id AND l.group_id = r.group_id
  WHERE r.source = 'polls' AND r.began_before >= l.logged_from
),

topics AS (
  SELECT cluster_id, topic_id, max(topic) AS topic
  FROM {silver.topic_snapshots}
  WHERE topic_id IS NOT NULL
  GROUP BY cluster_id, topic_id
),

unnamed AS (
  SELECT rebalance_id, member_id, cluster_id, cluster, group_id, began_before,
    explode(array_distinct(transform(
      filter(
        concat(coalesce(before, array()), coalesce(after, array())),
        had -> had.topic IS NULL AND had.topic_id IS NOT NULL
      ),
      had -> had.topic_id
    ))) AS topic_id
  FROM {internal.rebalance_members}
),

named AS (
  SELECT u.rebalance_id, u.member_id, u.cluster_id, u.cluster, u.group_id, u.began_before,
    map_from_entries(collect_set(struct(u.topic_id, t.topic))) AS names
  FROM unnamed u JOIN topics t ON t.cluster_id = u.cluster_id AND t.topic_id = u.topic_id
  GROUP BY u.rebalance_id, u.member_id, u.cluster_id, u.cluster, u.group_id, u.began_before
)

SELECT m.rebalance_id, m.cluster_id, m.cluster, m.group_id, m.member_id, m.prev_member_id, m.instance_id, m.client_id,
  m.client_host, m.rack, m.change,
  transform(m.before, had -> named_struct(
    'topic', coalesce(had.topic, n.names[had.topic_id]), 'topic_id', had.topic_id, 'partitions', had.partitions
  )) AS before,
  transform(m.after, had -> named_struct(
    'topic', coalesce(had.topic, n.names[had.topic_id]), 'topic_id', had.topic_id, 'partitions', had.partitions
  )) AS after,
  m.began_before, m.updated_at
FROM {internal.rebalance_members} m
LEFT JOIN named n
  ON n.rebalance_id = m.rebalance_id AND n.member_id = m.member_id AND n.cluster_id = m.cluster_id
    AND n.cluster = m.cluster AND n.group_id = m.group_id AND n.began_before = m.began_before
LEFT ANTI JOIN hidden h
  ON h.id = m.rebalance_id AND h.cluster_id = m.cluster_id AND h.cluster = m.cluster AND h.group_id = m.group_id
    AND h.began_before = m.began_before
