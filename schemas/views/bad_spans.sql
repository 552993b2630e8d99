SELECT e.cluster_id, e.cluster, e.topic, e.partition, e.level = 'offline' AS is_bad_for_reads,
  e.level <> 'under_replicated' AS is_sure, e.began_after, e.began_before, e.ended_after, e.ended_before
FROM {gold.isr_episodes} e
LEFT JOIN {silver.topic_configs} c
  ON c.cluster_id = e.cluster_id AND c.cluster = e.cluster AND c.topic = e.topic
    AND c.min_insync_replicas IS NOT NULL AND e.level = 'under_replicated'
    AND c.valid_from <= e.began_before AND (c.valid_to IS NULL OR c.valid_to >= e.ended_before)
-- Where the min ISR is not known, each ISR that lacks a replica may be too small.
WHERE e.level <> 'at_min_isr' AND (e.level <> 'under_replicated' OR c.topic IS NULL)
UNION ALL
-- Between two polls. A change that none of them saw may have been to no leader.
SELECT cluster_id, cluster, topic, partition, true, false, began_after, began_before, began_before, began_before
FROM {gold.leader_changes}
WHERE changes_max IS NULL OR changes_max > 1
UNION ALL
-- Without epochs each change may be one that no poll saw.
SELECT cluster_id, cluster, topic, partition, true, false, prev_sent_at, valid_from, valid_to, valid_to
FROM {silver.partition_snapshots}
WHERE leader_epoch IS NULL
