SELECT 'stale_broker' AS kind, cluster_id, cluster, broker_id, array(broker_id) AS brokers,
  began_after, began_before, ended_after, ended_before
FROM {gold.stale_brokers}
WHERE ended_before IS NULL OR ended_before >= :since
