SELECT cluster_id, cluster, broker_id, rack, began_after, valid_from,
  lead(valid_from) OVER (PARTITION BY cluster_id, broker_id ORDER BY valid_from) AS valid_to
FROM (
  SELECT *, lag(valid_from) OVER by_broker IS NULL OR lag(rack) OVER by_broker IS DISTINCT FROM rack AS is_new
  FROM (
    SELECT cluster_id, cluster, broker_id, valid_from, min(prev_sent_at) AS began_after, max(rack) AS rack
    FROM (
      SELECT cluster_id, cluster, broker_id, valid_from, prev_sent_at, rack FROM {silver.broker_snapshots}
      UNION ALL
      SELECT cluster_id, cluster, broker_id, valid_from, prev_sent_at, rack FROM {silver.broker_registrations}
    )
    GROUP BY cluster_id, cluster, broker_id, valid_from
  )
  WINDOW by_broker AS (PARTITION BY cluster_id, broker_id ORDER BY valid_from)
)
WHERE is_new
