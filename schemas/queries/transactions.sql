-- Which transactions were long, stuck or aborted?
-- Those that were open for longer than their time-out or five minutes, stuck, or aborted by the coordinator, and why.
-- The longest first. seconds_max: until the markers were written. --at-least leaves out shorter ones. By the log of
-- transaction coordinators. coordinator: the broker that wrote the last record, where polls know it.
-- theme: transactions
WITH timed AS (
  SELECT *,
    (unix_micros(coalesce(ended_after, least(coalesce(seen_at, last_record_at), CAST(:until AS TIMESTAMP))))
      - unix_micros(started_at)) / 1e6 AS seconds_min,
    (unix_micros(coalesce(ended_before, IF(is_live, CAST(:until AS TIMESTAMP), NULL))) - unix_micros(started_at)) / 1e6
      AS seconds_max
  FROM gold.coordinated_transactions
  WHERE started_at <= CAST(:until AS TIMESTAMP)
    AND (is_live OR coalesce(ended_before, seen_at, last_record_at) >= CAST(:since AS TIMESTAMP))
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:topic AS STRING) IS NULL OR coalesce(exists(partitions, each -> each.topic = :topic), false))
)

SELECT t.cluster, t.transactional_id, t.started_at, greatest(t.seconds_min, 0) AS seconds_min, t.seconds_max,
  t.timeout_ms / 1e3 AS timeout_s, t.state, t.outcome, t.aborted_by, t.reason, t.reason_sureness, t.stuck,
  t.overdue_since, t.stuck_completing_since, t.prepared_after, t.prepared_before, t.ended_after, t.ended_before,
  t.producer_id, t.producer_epoch, t.coordinator, t.coordinator_moved, t.partition_count,
  transform(slice(t.partitions, 1, 10), each -> each.topic) AS topics, t.close_reason
FROM timed t
WHERE (CAST(:at_least AS BIGINT) IS NULL OR coalesce(t.seconds_max, t.seconds_min) >= :at_least)
  AND (CAST(:broker AS INT) IS NULL OR t.coordinator = :broker)
ORDER BY seconds_min DESC, t.cluster, t.started_at, t.transactional_id
