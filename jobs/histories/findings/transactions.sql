-- A transaction that is stuck, by topic: it holds up readers of committed records of each. Those of Kafka's own topics
-- only where it has no others. cause: how it is stuck.
SELECT 'stuck_transaction' AS kind, cluster_id, cluster, topic, max(partitions) AS partitions, 'log' AS source, cause,
  since AS began_after, since AS began_before, until AS ended_after, until AS ended_before
FROM (
  SELECT cluster_id, cluster, cause, since, until, each.topic AS topic, CAST(size(each.partitions) AS BIGINT) AS partitions
  FROM (
    SELECT cluster_id, cluster, cause, since, until, slice(IF(size(own) > 0, own, partitions), 1, 10) AS written
    FROM (
      SELECT cluster_id, cluster, 'overdue' AS cause, overdue_since AS since, partitions,
        filter(partitions, each -> left(each.topic, 2) <> '__') AS own,
        coalesce(prepared_before, IF(is_live, NULL, greatest(overdue_since, coalesce(seen_at, last_record_at)))) AS until
      FROM {gold.transactions}
      WHERE overdue_since IS NOT NULL AND (is_live OR coalesce(ended_before, seen_at, last_record_at) >= :since)
      UNION ALL
      SELECT cluster_id, cluster, 'stuck_completing', stuck_completing_since, partitions,
        filter(partitions, each -> left(each.topic, 2) <> '__'),
        coalesce(ended_before, IF(is_live, NULL, greatest(stuck_completing_since, coalesce(seen_at, last_record_at))))
      FROM {gold.transactions}
      WHERE stuck_completing_since IS NOT NULL AND (is_live OR coalesce(ended_before, seen_at, last_record_at) >= :since)
    )
  )
  LATERAL VIEW outer explode(written) AS each
)
WHERE until IS NULL OR until >= :since
GROUP BY cluster_id, cluster, topic, cause, since, until
