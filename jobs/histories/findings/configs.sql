-- A topic that is made with the setting did not change it.
SELECT 'config_changed' AS kind, c.cluster_id, c.cluster, c.resource_name AS topic, 'log' AS source,
  c.prev_sent_at AS began_after, c.valid_from AS began_before, c.prev_sent_at AS ended_after, c.valid_from AS ended_before
FROM {silver.configs} c
LEFT ANTI JOIN {silver.topic_snapshots} t
  ON t.cluster_id = c.cluster_id AND t.cluster = c.cluster AND t.topic = c.resource_name AND t.valid_from = c.valid_from
WHERE c.resource_type = 2 AND c.name = 'min.insync.replicas' AND c.valid_from >= :since
