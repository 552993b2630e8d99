SELECT cluster, broker_id FROM gold.stale_brokers WHERE is_live AND ended_before IS NULL ORDER BY cluster, broker_id
