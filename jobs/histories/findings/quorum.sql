SELECT 'quorum_lost' AS kind, cluster_id, cluster, prev_sent_at AS began_after, valid_from AS began_before,
  last_seen_sent_at AS ended_after, valid_to AS ended_before
FROM {silver.quorum}
WHERE controller_id = -1 AND (valid_to IS NULL OR valid_to >= :since)
