-- Which transactions were stuck at the window's end?
-- They hold up readers of committed records of their partitions. overdue: open beyond their time-out, and the
-- coordinator does not abort them. stuck_completing: decided, and the markers cannot be written. seen_at: up to then the
-- log says nothing else. command: of Kafka's tools, for one that is overdue; it aborts the transaction, so first look at
-- its producer. One that is decided ends once its partitions have leaders again.
-- theme: transactions
WITH stuck AS (
  SELECT *,
    CASE
      WHEN stuck_completing_since <= CAST(:until AS TIMESTAMP)
        AND (ended_before > CAST(:until AS TIMESTAMP) OR ended_before IS NULL AND is_live) THEN 'stuck_completing'
      WHEN overdue_since <= CAST(:until AS TIMESTAMP)
        AND (prepared_before > CAST(:until AS TIMESTAMP) OR prepared_before IS NULL AND is_live) THEN 'overdue'
    END AS how
  FROM gold.coordinated_transactions
  WHERE started_at <= CAST(:until AS TIMESTAMP) AND (is_live OR ended_before > CAST(:until AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR coalesce(exists(partitions, each -> each.topic = :topic), false))
),

since AS (
  SELECT *, CASE WHEN how = 'overdue' THEN overdue_since ELSE stuck_completing_since END AS stuck_since
  FROM stuck
  WHERE how IS NOT NULL
),

timed AS (
  SELECT *, (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(stuck_since)) / 1e6 AS stuck_s
  FROM since
)

SELECT t.cluster, t.transactional_id, t.how AS stuck, t.stuck_since, t.stuck_s, t.started_at,
  t.timeout_ms / 1e3 AS timeout_s, t.outcome, t.producer_id, t.producer_epoch, t.coordinator,
  t.partition_count, transform(slice(t.partitions, 1, 10), each -> each.topic) AS topics, t.seen_at,
  CASE t.how WHEN 'overdue' THEN t.command END AS command
FROM timed t
WHERE (CAST(:at_least AS BIGINT) IS NULL OR t.stuck_s >= :at_least)
  AND (CAST(:broker AS INT) IS NULL OR t.coordinator = :broker)
ORDER BY t.stuck_s DESC, t.cluster, t.transactional_id
