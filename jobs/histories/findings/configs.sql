SELECT 'config_changed' AS kind, cluster_id, cluster, resource_name AS topic, 'log' AS source,
  prev_sent_at AS began_after, valid_from AS began_before, prev_sent_at AS ended_after, valid_from AS ended_before
FROM {silver.configs}
WHERE resource_type = 2 AND name = 'min.insync.replicas' AND valid_from >= :since
