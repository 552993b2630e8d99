-- The first part names the columns: without its table there is no view. Others are left out where their tables are
-- not there.
SELECT concat('isr_', change) AS what, cluster_id, cluster, topic, partition, CAST(NULL AS STRING) AS group_id,
  broker_id, concat('{', array_join(prev_isr, ','), '}') AS before,
  concat('{', array_join(isr, ','), '}') AS after, cause AS inferred,
  began_after, began_before
FROM {gold.isr_changes}
UNION ALL
SELECT 'broker_listed', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, concat(host, ':', port), NULL,
  prev_sent_at, valid_from
FROM {silver.broker_snapshots} WHERE prev_host IS NULL
UNION ALL
SELECT 'broker_gone', cluster_id, cluster, NULL, NULL, NULL, broker_id, concat(host, ':', port), NULL, NULL,
  last_seen_sent_at, valid_to
FROM {silver.broker_snapshots} WHERE end_reason IS NOT NULL
UNION ALL
SELECT 'broker_stale', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL,
  concat(partitions_behind, ' partitions, ', epochs_behind, ' leader epochs behind'), NULL, began_after, began_before
FROM {gold.stale_brokers}
UNION ALL
SELECT 'broker_stale_no_more', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, end_reason, NULL,
  ended_after, ended_before
FROM {gold.stale_brokers} WHERE ended_before IS NOT NULL
UNION ALL
SELECT 'broker_registered', cluster_id, cluster, NULL, NULL, NULL, broker_id,
  concat('broker epoch ', prev_broker_epoch),
  concat_ws(', ', concat('broker epoch ', broker_epoch), IF(is_fenced, 'fenced', NULL),
    IF(in_controlled_shutdown, 'in controlled shutdown', NULL)),
  NULL, prev_sent_at, valid_from
FROM {silver.broker_registrations} WHERE prev_broker_epoch IS NULL OR prev_broker_epoch <> broker_epoch
UNION ALL
SELECT IF(is_fenced, 'broker_fenced', 'broker_unfenced'), cluster_id, cluster, NULL, NULL, NULL, broker_id,
  IF(prev_in_controlled_shutdown, 'in controlled shutdown', NULL), NULL, NULL, prev_sent_at, valid_from
FROM {silver.broker_registrations} WHERE prev_is_fenced <> is_fenced
UNION ALL
SELECT 'broker_controlled_shutdown', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, NULL, NULL,
  prev_sent_at, valid_from
FROM {silver.broker_registrations} WHERE in_controlled_shutdown AND NOT prev_in_controlled_shutdown
UNION ALL
SELECT 'broker_unregistered', cluster_id, cluster, NULL, NULL, NULL, broker_id,
  concat('broker epoch ', broker_epoch), NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.broker_registrations} WHERE end_reason IS NOT NULL
UNION ALL
SELECT 'controller_elected', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(prev_controller_id, ', epoch ', prev_controller_epoch), concat(controller_id, ', epoch ', controller_epoch),
  NULL, began_after, began_before
FROM {gold.controller_changes}
UNION ALL
SELECT what, cluster_id, cluster, topic, NULL, group_id, broker_id, before, after, NULL, began_after, began_before
FROM (
  WITH configs AS (
    SELECT *, IF(resource_type = 2, resource_name, NULL) AS topic,
      IF(resource_type = 32, resource_name, NULL) AS group_id,
      -- Of all brokers the name is empty.
      IF(resource_type = 4, try_cast(resource_name AS INT), NULL) AS broker_id,
      concat(CASE WHEN resource_type = 4 AND resource_name = '' THEN 'all brokers: '
        WHEN resource_type = 16 THEN concat('client metrics ', resource_name, ': ') ELSE '' END, name) AS setting
    FROM {silver.configs}
  )
  SELECT IF(prev_value IS NULL, 'config_set', 'config_changed') AS what, cluster_id, cluster, topic, group_id,
    broker_id, concat(setting, '=', prev_value) AS before, coalesce(concat(setting, '=', value), setting) AS after,
    prev_sent_at AS began_after, valid_from AS began_before
  FROM configs
  UNION ALL
  SELECT 'config_removed', cluster_id, cluster, topic, group_id,
    broker_id, coalesce(concat(setting, '=', value), setting), NULL, last_seen_sent_at, valid_to
  FROM configs WHERE end_reason IS NOT NULL
)
UNION ALL
SELECT 'feature_level_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(name, '=', prev_level), concat(name, '=', level), NULL, prev_sent_at, valid_from
FROM {silver.features}
UNION ALL
SELECT 'feature_level_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(name, '=', level), NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.features} WHERE end_reason IS NOT NULL
UNION ALL
SELECT 'leader_changed', cluster_id, cluster, topic, partition, NULL, leader, CAST(prev_leader AS STRING),
  CAST(leader AS STRING),
  concat_ws(', ', reason, CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END), began_after, began_before
FROM {gold.leader_changes} WHERE leader <> prev_leader
UNION ALL
SELECT 'reassignment_began', cluster_id, cluster, topic, partition, NULL, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL,
  prev_sent_at, valid_from
FROM {silver.reassignments} WHERE prev_adding_replicas IS NULL
UNION ALL
SELECT 'reassignment_ended', cluster_id, cluster, topic, partition, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL, NULL,
  last_seen_sent_at, valid_to
FROM {silver.reassignments} WHERE end_reason IS NOT NULL
UNION ALL
SELECT 'topic_appeared', cluster_id, cluster, topic, NULL, NULL, NULL, NULL, topic_id, NULL,
  prev_sent_at, valid_from
FROM {silver.topic_snapshots} WHERE prev_error_code IS NULL
UNION ALL
SELECT 'topic_ended', cluster_id, cluster, topic, NULL, NULL, NULL, topic_id, NULL, end_reason,
  last_seen_sent_at, valid_to
FROM {silver.topic_snapshots} WHERE end_reason IS NOT NULL
UNION ALL
SELECT 'rebalance_began', cluster_id, cluster, NULL, NULL, group_id, coordinator,
  concat_ws(', ', concat('generation ', prev_generation),
    concat(prev_members, IF(prev_members = 1, ' member', ' members'))),
  NULL, array_join(reasons, ', '),
  coalesce(narrowed_after, began_after), began_before
FROM {gold.rebalances}
UNION ALL
SELECT 'rebalance_ended', cluster_id, cluster, NULL, NULL, group_id, coordinator, NULL,
  concat_ws(', ', end_reason, concat('generation ', generation),
    concat(members, IF(members = 1, ' member', ' members'))),
  array_join(reasons, ', '), ended_after, ended_before
FROM {gold.rebalances} WHERE ended_before IS NOT NULL
UNION ALL
SELECT 'coordinator_moved', cluster_id, cluster, '__consumer_offsets', log_partition, group_id, broker_id,
  CAST(prev_broker_id AS STRING), CAST(broker_id AS STRING), NULL, began_after, began_before
FROM {gold.group_events} WHERE event = 'coordinator_moved'
UNION ALL
SELECT concat('group_', event), cluster_id, cluster, NULL, NULL, group_id, NULL,
  coalesce(prev_member_id, prev_group_type),
  coalesce(member_id, detail, group_type), NULL, began_after, began_before
FROM {gold.group_events} WHERE event <> 'coordinator_moved'
UNION ALL
SELECT kind, cluster_id, cluster, NULL, NULL, group_id, NULL, NULL,
  concat_ws(', ', concat(rebalances, ' rebalances'), client_id, client_host), NULL, NULL, began_before
FROM {gold.rebalance_storms}
UNION ALL
SELECT 'mark_began', c.cluster_id, c.cluster, NULL, NULL, NULL, NULL, NULL, m.text, NULL, m.since, m.since
FROM {gold.marks} m JOIN {internal.clusters} c ON m.cluster IS NULL OR m.cluster = c.cluster
UNION ALL
SELECT 'mark_ended', c.cluster_id, c.cluster, NULL, NULL, NULL, NULL, m.text, NULL, NULL, m.until, m.until
FROM {gold.marks} m JOIN {internal.clusters} c ON m.cluster IS NULL OR m.cluster = c.cluster
WHERE m.until IS NOT NULL
