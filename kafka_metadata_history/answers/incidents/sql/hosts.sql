-- The address of each broker as of then: the last one before.
SELECT broker_id, max_by(host, valid_from) AS host, max_by(port, valid_from) AS port
FROM silver.broker_snapshots
WHERE cluster = :cluster AND valid_from <= CAST(:since AS TIMESTAMP)
GROUP BY broker_id
ORDER BY broker_id
