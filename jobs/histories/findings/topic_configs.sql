SELECT 'config_changed' AS kind, cluster_id, cluster, topic,
  prev_sent_at AS began_after, valid_from AS began_before, prev_sent_at AS ended_after, valid_from AS ended_before
FROM {silver.topic_configs}
WHERE prev_min_insync_replicas <> min_insync_replicas AND valid_from >= :since
