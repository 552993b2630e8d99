-- Brokers that are known to be fenced, those that are listed, and those that the controllers have registered, which
-- count last. If the controllers' log does not tell history, its rows may be old.
SELECT cluster, broker_id,
  max_by(CASE WHEN NOT is_live THEN 'fenced' WHEN is_stopping THEN 'stopping' ELSE 'listed' END, place) AS state,
  max_by(rack, place) FILTER (WHERE rack IS NOT NULL) AS rack,
  max_by(address, place) FILTER (WHERE address IS NOT NULL) AS address,
  max(incarnation_id) AS incarnation_id, max(broker_epoch) AS broker_epoch, max_by(valid_from, place) AS since
FROM (
  SELECT 1 AS place, cluster, broker_id, rack, concat(host, ':', CAST(port AS STRING)) AS address, false AS is_live,
    false AS is_stopping, CAST(NULL AS STRING) AS incarnation_id, CAST(NULL AS BIGINT) AS broker_epoch, valid_from
  FROM silver.fenced_brokers WHERE {of_cluster} AND {then}
  UNION ALL
  SELECT 2, cluster, broker_id, rack, concat(host, ':', CAST(port AS STRING)), true, false, NULL, NULL, valid_from
  FROM silver.broker_snapshots WHERE {of_cluster} AND {then}
  UNION ALL
  SELECT 3, cluster, broker_id, rack, NULL, NOT is_fenced, in_controlled_shutdown, incarnation_id, broker_epoch,
    valid_from
  FROM silver.broker_registrations
  WHERE {of_cluster} AND {then}
    AND cluster_id IN (SELECT cluster_id FROM silver.history_sources WHERE {of_cluster} AND {then} AND source = 'log')
)
GROUP BY cluster, broker_id
ORDER BY cluster, broker_id
