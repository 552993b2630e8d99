-- Which partitions are placed badly, and since when?
-- At the window's end. finding is shared_rack (two replicas in one rack, while a rack of the cluster has none),
-- too_few_racks (the same, but each rack has one), rf_1 (one replica) or rf_at_most_min_isr (several, but no more than
-- min.insync.replicas: each broker that stops stops writes). move is by which it came to be so: creation (it was listed
-- for the first time), reassignment, rack_change (of a broker) or min_isr_change; null where it was so before anybody
-- looked, or where a rack or a min ISR was not known before. partition, replicas and racks are those of the first of
-- the partitions. A reassignment that runs, and adds replicas, counts as done.
-- theme: maintenance
WITH there AS (
  SELECT cluster_id, topic, partition, replicas
  FROM silver.partition_snapshots
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
),

sharing AS (
  SELECT l.cluster_id, l.replicas
  FROM (SELECT cluster_id, replicas, explode(replicas) AS broker_id FROM (SELECT DISTINCT cluster_id, replicas FROM there)) l
  JOIN silver.broker_racks r
    ON r.cluster_id = l.cluster_id AND r.broker_id = l.broker_id AND r.valid_from <= CAST(:until AS TIMESTAMP)
      AND (r.valid_to IS NULL OR r.valid_to > CAST(:until AS TIMESTAMP))
  GROUP BY l.cluster_id, l.replicas
  HAVING count(r.rack) > count(DISTINCT r.rack)
),

-- The partitions that may be placed badly at the window's end. Only their history is read.
suspects AS (
  SELECT t.cluster_id, t.topic, t.partition
  FROM there t
  LEFT JOIN sharing s ON s.cluster_id = t.cluster_id AND s.replicas = t.replicas
  LEFT JOIN silver.topic_configs c
    ON c.cluster_id = t.cluster_id AND c.topic = t.topic AND c.valid_from <= CAST(:until AS TIMESTAMP)
      AND (c.valid_to IS NULL OR c.valid_to > CAST(:until AS TIMESTAMP))
  WHERE s.cluster_id IS NOT NULL OR size(t.replicas) = 1 OR size(t.replicas) <= c.min_insync_replicas
  UNION
  SELECT cluster_id, topic, partition
  FROM silver.reassignments
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
),

states AS (
  SELECT s.*, s.valid_to IS NULL OR s.valid_to > CAST(:until AS TIMESTAMP) AS is_there,
    s.prev_error_code IS NULL AS is_listed_anew, s.replicas IS DISTINCT FROM s.prev_replicas AS is_moved
  FROM silver.partition_snapshots s
  JOIN suspects u ON u.cluster_id = s.cluster_id AND u.topic = s.topic AND u.partition = s.partition
  WHERE s.valid_from <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR s.cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR s.topic = :topic)
),

-- The partitions that are there at the window's end: each list of replicas since they are there.
lists AS (
  SELECT cluster_id, cluster, topic, partition, first_poll, valid_from, replicas,
    CASE WHEN is_moved AND NOT was_hidden THEN prev_sent_at END AS began_after,
    CASE WHEN is_listed_anew AND prev_sent_at IS NOT NULL AND NOT was_hidden THEN 'creation'
      WHEN is_moved AND NOT is_listed_anew THEN 'reassignment' END AS move,
    lead(valid_from) OVER (PARTITION BY cluster_id, topic, partition ORDER BY first_poll) AS valid_to
  FROM (
    SELECT *,
      bool_or(is_there) OVER by_partition AS goes_on,
      max(CASE WHEN is_listed_anew THEN first_poll END) OVER by_partition AS since_poll,
      -- It may have been there while nobody was shown it.
      is_listed_anew AND coalesce(bool_or(end_reason IN ('unauthorized', 'not_polled')) OVER by_partition, false)
        AS was_hidden
    FROM states
    WHERE is_listed_anew OR is_moved OR is_there OR end_reason IS NOT NULL
    WINDOW by_partition AS (PARTITION BY cluster_id, topic, partition)
  )
  WHERE goes_on AND (is_listed_anew OR is_moved OR is_there) AND (since_poll IS NULL OR first_poll >= since_poll)
),

-- While a reassignment runs, a partition has the replicas of before and of afterwards.
removed AS (
  SELECT l.cluster_id, l.topic, l.partition, l.first_poll, flatten(collect_list(r.removing_replicas)) AS removing
  FROM lists l
  JOIN silver.reassignments r
    ON r.cluster_id = l.cluster_id AND r.topic = l.topic AND r.partition = l.partition
      AND size(r.adding_replicas) > 0 AND size(array_except(r.adding_replicas, l.replicas)) = 0
      AND (l.valid_to IS NULL OR r.valid_from < l.valid_to) AND (r.valid_to IS NULL OR r.valid_to > l.valid_from)
  GROUP BY l.cluster_id, l.topic, l.partition, l.first_poll
),

placed AS (
  SELECT l.cluster_id, l.cluster, l.topic, l.partition, l.valid_from, l.valid_to, l.began_after, l.move,
    CASE WHEN r.removing IS NULL THEN l.replicas
      ELSE filter(l.replicas, each -> NOT array_contains(r.removing, each)) END AS replicas
  FROM lists l
  LEFT JOIN removed r
    ON r.cluster_id = l.cluster_id AND r.topic = l.topic AND r.partition = l.partition AND r.first_poll = l.first_poll
),

-- When it may have come to be so.
moves AS (
  SELECT cluster_id, cluster, topic, partition, replicas, valid_from AS told_at, began_after, move
  FROM placed
  UNION ALL
  SELECT p.cluster_id, p.cluster, p.topic, p.partition, p.replicas, r.valid_from, r.began_after, 'rack_change'
  FROM (SELECT *, explode(replicas) AS broker_id FROM placed) p
  JOIN silver.broker_racks r
    ON r.cluster_id = p.cluster_id AND r.broker_id = p.broker_id AND r.valid_from <= CAST(:until AS TIMESTAMP)
      AND r.valid_from > p.valid_from AND (p.valid_to IS NULL OR r.valid_from < p.valid_to)
  UNION ALL
  SELECT p.cluster_id, p.cluster, p.topic, p.partition, p.replicas, c.valid_from, c.prev_sent_at, 'min_isr_change'
  FROM placed p
  JOIN silver.topic_configs c
    ON c.cluster_id = p.cluster_id AND c.topic = p.topic AND c.valid_from <= CAST(:until AS TIMESTAMP)
      AND c.valid_from > p.valid_from AND (p.valid_to IS NULL OR c.valid_from < p.valid_to)
),

points AS (
  SELECT cluster_id, cluster, topic, partition, replicas, told_at, min(began_after) AS began_after, min(move) AS move
  FROM moves
  GROUP BY cluster_id, cluster, topic, partition, replicas, told_at
),

in_racks AS (
  SELECT p.cluster_id, p.cluster, p.topic, p.partition, p.replicas, p.told_at, p.began_after, p.move,
    count(r.rack) AS known,
    count(DISTINCT r.rack) AS distinct_racks,
    transform(array_sort(collect_list(struct(array_position(p.replicas, p.broker_id) AS place, r.rack AS rack))),
      each -> each.rack) AS racks
  FROM (SELECT *, explode(replicas) AS broker_id FROM points) p
  LEFT JOIN silver.broker_racks r
    ON r.cluster_id = p.cluster_id AND r.broker_id = p.broker_id
      AND r.valid_from <= p.told_at AND (r.valid_to IS NULL OR r.valid_to > p.told_at)
  GROUP BY p.cluster_id, p.cluster, p.topic, p.partition, p.replicas, p.told_at, p.began_after, p.move
),

judged AS (
  SELECT p.cluster_id, p.cluster, p.topic, p.partition, p.replicas, p.racks, p.distinct_racks, p.told_at, p.began_after,
    p.move,
    inline(array(
      struct('shared_rack' AS finding, CASE WHEN p.known > p.distinct_racks THEN true
        WHEN p.known = size(p.replicas) THEN false END AS holds),
      struct('rf_1' AS finding, size(p.replicas) = 1 AS holds),
      struct('rf_at_most_min_isr' AS finding, size(p.replicas) > 1 AND size(p.replicas) <= c.min_insync_replicas
        AS holds)
    ))
  FROM in_racks p
  LEFT JOIN silver.topic_configs c
    ON c.cluster_id = p.cluster_id AND c.topic = p.topic
      AND c.valid_from <= p.told_at AND (c.valid_to IS NULL OR c.valid_to > p.told_at)
),

found AS (
  SELECT cluster_id, cluster, topic, partition, finding,
    min_by(began_after, told_at) AS began_after,
    min(CASE WHEN unknown_at IS NULL OR told_at > unknown_at THEN told_at END) AS began_before,
    CASE WHEN count(holds) = count(*) THEN min_by(move, told_at) END AS move,
    max_by(replicas, told_at) AS replicas,
    max_by(racks, told_at) AS racks,
    max_by(distinct_racks, told_at) AS distinct_racks
  FROM (
    SELECT *,
      max(CASE WHEN NOT holds THEN told_at END) OVER by_finding AS fine_at,
      max(CASE WHEN holds IS NULL THEN told_at END) OVER by_finding AS unknown_at
    FROM judged
    WINDOW by_finding AS (PARTITION BY cluster_id, topic, partition, finding)
  )
  WHERE fine_at IS NULL OR told_at > fine_at
  GROUP BY cluster_id, cluster, topic, partition, finding
  HAVING max_by(holds, told_at)
),

racks_of AS (
  SELECT cluster_id, count(DISTINCT rack) AS racks
  FROM (
    SELECT cluster_id, explode(racks) AS rack FROM found
    UNION ALL
    SELECT cluster_id, rack
    FROM silver.broker_snapshots
    WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
  )
  GROUP BY cluster_id
)

SELECT cluster, topic, min(partition) AS partition, finding, count(*) AS partitions, began_after, began_before, move,
  min_by(replicas, partition) AS replicas, min_by(racks, partition) AS racks
FROM (
  SELECT f.cluster, f.topic, f.partition, f.began_after, f.began_before, f.move, f.replicas, f.racks,
    CASE WHEN f.finding = 'shared_rack' AND f.distinct_racks >= r.racks THEN 'too_few_racks' ELSE f.finding END
      AS finding
  FROM found f
  LEFT JOIN racks_of r ON r.cluster_id = f.cluster_id
  WHERE CAST(:broker AS INT) IS NULL OR array_contains(f.replicas, CAST(:broker AS INT))
)
GROUP BY cluster, topic, finding, began_after, began_before, move
ORDER BY array_position(array('rf_at_most_min_isr', 'shared_rack', 'rf_1', 'too_few_racks'), finding), cluster, topic,
  partition, began_before
