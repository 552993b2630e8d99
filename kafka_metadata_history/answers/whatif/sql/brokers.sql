-- Brokers that are known to be fenced, those that are listed, and those that the controllers have registered.
SELECT broker_id, rack, source, is_live, is_stopping FROM (
  SELECT 1 AS place, broker_id, rack, 'fenced' AS source, false AS is_live, false AS is_stopping
  FROM silver.fenced_brokers WHERE cluster = :cluster AND {then}
  UNION ALL
  SELECT 2, broker_id, rack, 'polls', true, false
  FROM silver.broker_snapshots WHERE cluster = :cluster AND {then}
  UNION ALL
  SELECT 3, broker_id, rack, 'log', NOT is_fenced, in_controlled_shutdown
  FROM silver.broker_registrations WHERE cluster = :cluster AND {then}
)
ORDER BY broker_id, place
