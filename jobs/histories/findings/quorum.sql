SELECT 'quorum_lost' AS kind, cluster_id, cluster, CAST(NULL AS INT) AS broker_id, CAST(NULL AS BIGINT) AS number,
  prev_sent_at AS began_after, valid_from AS began_before, last_seen_sent_at AS ended_after, valid_to AS ended_before
FROM {silver.quorum}
WHERE controller_id = -1 AND (valid_to IS NULL OR valid_to >= :since)
UNION ALL
-- Where the controllers' log tells, it tells each of them.
SELECT 'controller_elected', cluster_id, cluster, nullif(prev_controller_id, -1), quorum_epoch - prev_quorum_epoch,
  prev_sent_at, valid_from, prev_sent_at, valid_from
FROM {silver.quorum}
WHERE prev_quorum_epoch < quorum_epoch AND valid_from >= :since
  AND cluster_id NOT IN (SELECT cluster_id FROM {gold.controller_changes} WHERE began_before >= :since)
