-- Which partitions were moved, from where to where?
-- A row for each target of a reassignment (enrichment reassignments, or the controllers' log). outcome is running (no
-- end is known), done, cancelled, or replaced (by another target); null where the replicas afterwards do not tell.
-- racks_before and racks_after count the distinct racks of its replicas without and with the move; null where one of
-- them has none.
-- theme: maintenance
WITH moves AS (
  SELECT cluster_id, cluster, topic, partition, first_poll, superseded_poll, prev_sent_at AS began_after,
    valid_from AS began_before, CASE WHEN valid_to IS NOT NULL THEN last_seen_sent_at END AS ended_after,
    valid_to AS ended_before, end_reason, adding_replicas, removing_replicas
  FROM silver.reassignments
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(adding_replicas, CAST(:broker AS INT))
      OR array_contains(removing_replicas, CAST(:broker AS INT)))
),

-- The replicas of a partition when a move began, and the outcome that each later list of them shows. While a move runs,
-- a partition has the replicas of before and of afterwards. A poll may be answered just before a reassignment ends.
lists AS (
  SELECT m.cluster_id, m.topic, m.partition, m.first_poll, s.first_poll AS list_poll, s.replicas,
    s.valid_from <= m.began_before AND (s.valid_to IS NULL OR s.valid_to > m.began_before) AS is_begin,
    CASE
      WHEN m.end_reason IS NULL OR (s.last_poll IS NOT NULL AND s.last_poll <= m.superseded_poll)
        OR (s.last_poll IS NULL AND c.last_seen_at <= m.ended_before) THEN NULL
      WHEN size(array_except(m.adding_replicas, s.replicas)) = 0
        AND size(array_except(m.removing_replicas, s.replicas)) = size(m.removing_replicas) THEN 'done'
      WHEN size(array_except(m.adding_replicas, s.replicas)) = size(m.adding_replicas)
        AND size(array_except(m.removing_replicas, s.replicas)) = 0 THEN 'cancelled'
    END AS outcome
  FROM moves m
  JOIN silver.partition_snapshots s
    ON s.cluster_id = m.cluster_id AND s.topic = m.topic AND s.partition = m.partition
      AND (s.valid_to IS NULL OR s.valid_to > m.began_before)
  LEFT JOIN internal.clusters c ON c.cluster_id = m.cluster_id AND c.cluster = m.cluster
),

judged AS (
  SELECT cluster_id, topic, partition, first_poll,
    max_by(replicas, list_poll) FILTER (WHERE is_begin) AS replicas,
    min_by(outcome, list_poll) FILTER (WHERE outcome IS NOT NULL) AS outcome
  FROM lists
  GROUP BY cluster_id, topic, partition, first_poll
),

replicas AS (
  SELECT cluster_id, topic, partition, first_poll, began_before,
    inline(array(
      struct('before' AS of, concat(array_except(staying, removing_replicas), removing_replicas) AS brokers),
      struct('after' AS of, concat(array_except(staying, removing_replicas), adding_replicas) AS brokers)
    ))
  FROM (
    SELECT m.*, array_except(p.replicas, m.adding_replicas) AS staying
    FROM moves m
    JOIN judged p
      ON p.cluster_id = m.cluster_id AND p.topic = m.topic AND p.partition = m.partition
        AND p.first_poll = m.first_poll AND p.replicas IS NOT NULL
  )
),

in_racks AS (
  SELECT b.cluster_id, b.topic, b.partition, b.first_poll, b.of,
    CASE WHEN count(r.rack) = count(*) THEN count(DISTINCT r.rack) END AS racks
  FROM (SELECT *, explode(brokers) AS broker_id FROM replicas) b
  LEFT JOIN silver.broker_racks r
    ON r.cluster_id = b.cluster_id AND r.broker_id = b.broker_id
      AND r.valid_from <= b.began_before AND (r.valid_to IS NULL OR r.valid_to > b.began_before)
  GROUP BY b.cluster_id, b.topic, b.partition, b.first_poll, b.of
)

SELECT m.cluster, m.topic, m.partition, m.began_after, m.began_before, m.ended_after, m.ended_before,
  m.adding_replicas, m.removing_replicas,
  CASE WHEN m.ended_before IS NULL THEN 'running' WHEN m.end_reason IS NULL THEN 'replaced' ELSE p.outcome END
    AS outcome,
  b.racks AS racks_before, a.racks AS racks_after
FROM moves m
LEFT JOIN judged p
  ON p.cluster_id = m.cluster_id AND p.topic = m.topic AND p.partition = m.partition AND p.first_poll = m.first_poll
LEFT JOIN in_racks b
  ON b.cluster_id = m.cluster_id AND b.topic = m.topic AND b.partition = m.partition AND b.first_poll = m.first_poll
    AND b.of = 'before'
LEFT JOIN in_racks a
  ON a.cluster_id = m.cluster_id AND a.topic = m.topic AND a.partition = m.partition AND a.first_poll = m.first_poll
    AND a.of = 'after'
ORDER BY m.began_before, m.cluster, m.topic, m.partition
