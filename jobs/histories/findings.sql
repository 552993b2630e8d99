-- Rows of gold and silver that may belong to an incident, as columns of gold.incident_links: those of a window that
-- last, or ended in it. Rows that are alike are one, with the number of their partitions.
WITH broker_stops AS (
  SELECT *,
    lead(prev_sent_at) OVER (PARTITION BY cluster_id, cluster, broker_id ORDER BY first_poll) AS back_after,
    lead(valid_from) OVER (PARTITION BY cluster_id, cluster, broker_id ORDER BY first_poll) AS back_before
  FROM {silver.broker_snapshots}
),

moves AS (
  SELECT * FROM {silver.coordinators} WHERE is_move AND prev_leader >= 0 AND began_before >= :since
),

group_rebalances AS (
  SELECT cluster_id, cluster, group_id, source, log_partition, subscribed[0] AS topic, began_after, began_before,
    ended_after, ended_before
  FROM {internal.rebalances} WHERE ended_before IS NULL OR ended_before >= :since
  UNION ALL
  SELECT cluster_id, cluster, group_id, 'polls', NULL, NULL, began_after, began_before, NULL, ended_before
  FROM {internal.rebalance_begins} WHERE ended_before IS NULL OR ended_before >= :since
),

changed_settings AS (
  SELECT cluster_id, cluster, topic, 'polls' AS source, prev_sent_at, valid_from
  FROM {silver.topic_configs}
  WHERE prev_min_insync_replicas <> min_insync_replicas AND valid_from >= :since
  UNION ALL
  SELECT cluster_id, cluster, resource_name, 'log', prev_sent_at, valid_from
  FROM {silver.configs}
  WHERE resource_type = 2 AND name = 'min.insync.replicas' AND valid_from >= :since AND from_offset IS NOT NULL
),

lagging AS (
  SELECT *, exists(not_well, each -> each.burrow_status IN ('STOP', 'STALL')) AS is_stopped
  FROM {gold.group_lag}
  WHERE burrow_status IN ('WARNING', 'ERROR') AND (valid_to IS NULL OR valid_to >= :since)
),

found AS (
  SELECT 'broker_missing' AS kind, cluster_id, cluster, broker_id, CAST(NULL AS INT) AS leader,
    CAST(NULL AS STRING) AS group_id, rack, array(broker_id) AS brokers, CAST(NULL AS STRING) AS topic,
    CAST(0 AS BIGINT) AS partitions, CAST(NULL AS BIGINT) AS number,
    last_seen_sent_at AS began_after, valid_to AS began_before, back_after AS ended_after, back_before AS ended_before,
    'polls' AS source, CAST(NULL AS STRING) AS cause, CAST(NULL AS BOOLEAN) AS is_controlled
  FROM broker_stops
  WHERE end_reason = 'gone' AND (back_before IS NULL OR back_before >= :since)
  UNION ALL
  -- A broker that registers for the first time is fenced until it has caught up.
  SELECT 'broker_missing', cluster_id, cluster, broker_id, NULL, NULL, rack, array(broker_id), NULL, 0, NULL,
    prev_sent_at, valid_from, last_seen_sent_at, valid_to, 'log', NULL,
    CASE WHEN NOT prev_is_fenced THEN coalesce(prev_in_controlled_shutdown, false) END
  FROM {silver.broker_registrations}
  WHERE is_fenced AND prev_broker_epoch IS NOT NULL AND (valid_to IS NULL OR valid_to >= :since)
  UNION ALL
  SELECT 'stale_broker', cluster_id, cluster, broker_id, NULL, NULL, NULL, array(broker_id), NULL, 0, NULL,
    began_after, began_before, ended_after, ended_before, 'polls', NULL, NULL
  FROM {gold.stale_brokers} WHERE ended_before IS NULL OR ended_before >= :since
  UNION ALL
  SELECT 'quorum_lost', cluster_id, cluster, NULL, NULL, NULL, NULL, array(), NULL, 0, NULL,
    prev_sent_at, valid_from, last_seen_sent_at, valid_to, 'polls', NULL, NULL
  FROM {silver.quorum} WHERE controller_id = -1 AND (valid_to IS NULL OR valid_to >= :since)
  UNION ALL
  SELECT 'controller_elected', cluster_id, cluster, prev_controller_id, NULL, NULL, NULL, array(), NULL, 0, 1,
    began_after, began_before, began_after, began_before, source, NULL, NULL
  FROM {gold.controller_changes} WHERE began_before >= :since AND prev_controller_epoch IS NOT NULL
  UNION ALL
  SELECT 'controller_elected', cluster_id, cluster, nullif(prev_controller_id, -1), NULL, NULL, NULL, array(), NULL, 0,
    quorum_epoch - prev_quorum_epoch, prev_sent_at, valid_from, prev_sent_at, valid_from, 'polls', NULL, NULL
  FROM {silver.quorum}
  WHERE prev_quorum_epoch < quorum_epoch AND valid_from >= :since
    AND cluster_id NOT IN (SELECT cluster_id FROM {gold.controller_changes} WHERE began_before >= :since)
  UNION ALL
  SELECT 'reassignment', cluster_id, cluster, NULL, NULL, NULL, NULL,
    array_sort(array_union(adding_replicas, removing_replicas)), min(topic), count(*), NULL,
    prev_sent_at, valid_from, last_seen_sent_at, valid_to, if(max(from_offset) IS NULL, 'polls', 'log'), NULL, NULL
  FROM {silver.reassignments} WHERE valid_to IS NULL OR valid_to >= :since
  GROUP BY cluster_id, cluster, array_sort(array_union(adding_replicas, removing_replicas)), prev_sent_at, valid_from,
    last_seen_sent_at, valid_to
  UNION ALL
  SELECT 'config_changed', cluster_id, cluster, NULL, NULL, NULL, NULL, array(), topic, 0, NULL,
    prev_sent_at, valid_from, prev_sent_at, valid_from, source, NULL, NULL
  FROM changed_settings
  UNION ALL
  -- A leader that drops several at once is itself the suspect.
  SELECT 'isr_left', cluster_id, cluster, if(cause = 'leader_stalled', NULL, broker_id),
    if(cause = 'leader_stalled', leader, NULL), NULL, max(rack), array_sort(collect_set(broker_id)),
    coalesce(min(topic) FILTER (WHERE NOT startswith(topic, '__')), min(topic)), count(*), NULL,
    began_after, began_before, ended_after, ended_before, source, cause, NULL
  FROM {gold.isr_changes}
  WHERE change IN ('left', 'initially_out') AND (ended_before IS NULL OR ended_before >= :since)
  GROUP BY cluster_id, cluster, if(cause = 'leader_stalled', NULL, broker_id),
    if(cause = 'leader_stalled', leader, NULL), began_after, began_before, ended_after, ended_before, source, cause
  UNION ALL
  SELECT 'leader_changed', cluster_id, cluster, prev_leader, NULL, NULL, NULL, array(prev_leader),
    coalesce(min(topic) FILTER (WHERE NOT startswith(topic, '__')), min(topic)), count(*), NULL,
    began_after, began_before, began_after, began_before, source, reason, NULL
  FROM {gold.leader_changes}
  WHERE prev_leader >= 0 AND leader <> prev_leader AND reason IN ('failover', 'offline', 'reassignment')
    AND began_before >= :since
  GROUP BY cluster_id, cluster, prev_leader, began_after, began_before, source, reason
  UNION ALL
  SELECT 'unclean_election', cluster_id, cluster, nullif(prev_leader, -1), NULL, NULL, NULL, prev_isr,
    coalesce(min(topic) FILTER (WHERE NOT startswith(topic, '__')), min(topic)), count(*), NULL,
    began_after, began_before, began_after, began_before, source, NULL, NULL
  FROM {gold.leader_changes}
  WHERE unclean = 'proven' AND began_before >= :since
  GROUP BY cluster_id, cluster, nullif(prev_leader, -1), prev_isr, began_after, began_before, source
  UNION ALL
  SELECT CASE e.level WHEN 'offline' THEN 'partition_offline' ELSE e.level END, e.cluster_id, e.cluster,
    l.prev_leader, NULL, NULL, NULL, e.brokers_out,
    coalesce(min(e.topic) FILTER (WHERE NOT startswith(e.topic, '__')), min(e.topic)), count(*), NULL,
    e.began_after, e.began_before, e.ended_after, e.ended_before, e.source, NULL, NULL
  FROM {gold.isr_episodes} e
  LEFT JOIN (
    -- The last leader of a partition without one: it may be in the ISR still.
    SELECT * FROM {gold.leader_changes} WHERE leader = -1 AND prev_leader >= 0
  ) l
    ON l.cluster_id = e.cluster_id AND l.cluster = e.cluster AND l.topic = e.topic AND l.partition = e.partition
      AND l.poll = e.poll AND e.level = 'offline'
  WHERE e.level IN ('under_replicated', 'under_min_isr', 'offline')
    AND (e.ended_before IS NULL OR e.ended_before >= :since)
  GROUP BY e.level, e.cluster_id, e.cluster, l.prev_leader, e.brokers_out,
    if(size(e.brokers_out) = 0 AND l.prev_leader IS NULL, e.topic, NULL), e.began_after, e.began_before, e.ended_after,
    e.ended_before, e.source
  UNION ALL
  SELECT 'coordinator_moved', cluster_id, cluster, prev_leader, NULL, NULL, NULL, array(prev_leader), NULL, count(*),
    NULL, began_after, began_before, began_after, began_before, source, NULL, NULL
  FROM moves
  GROUP BY cluster_id, cluster, prev_leader, began_after, began_before, source
  UNION ALL
  -- Of a rebalance: the coordinator that its group had until a move just before.
  SELECT 'rebalance', r.cluster_id, r.cluster, max_by(m.prev_leader, m.began_before), NULL, r.group_id, NULL, array(),
    r.topic, 0, NULL, r.began_after, r.began_before, r.ended_after, r.ended_before, r.source, NULL, NULL
  FROM group_rebalances r
  LEFT JOIN moves m
    ON m.cluster_id = r.cluster_id AND m.log_partition = r.log_partition
      AND r.began_before BETWEEN m.began_before - INTERVAL '5' SECOND AND m.began_before + INTERVAL '2' MINUTE
  GROUP BY r.cluster_id, r.cluster, r.group_id, r.topic, r.began_after, r.began_before, r.ended_after, r.ended_before,
    r.source
  UNION ALL
  SELECT 'pause', cluster_id, cluster, NULL, NULL, group_id, NULL, array(), min(topic), count(*), max(pause_ms_min),
    min(last_commit_at), min(began_before),
    if(count(first_commit_at) = count(*), max(coalesce(last_commit_at, began_before)), NULL),
    if(count(first_commit_at) = count(*), max(first_commit_at), NULL), 'log', NULL, NULL
  FROM {gold.rebalance_cost}
  WHERE pause_ms_min > 0 AND (is_live OR coalesce(first_commit_at, ended_before) >= :since)
  GROUP BY cluster_id, cluster, group_id, rebalance_id
  UNION ALL
  SELECT 'lag', cluster_id, cluster, NULL, NULL, group_id, NULL, array(), min(topic), count(*), sum(lag_peak),
    min(began_before), min(coalesce(lag_peak_at, ended_before)),
    if(count(lag_back_before) = count(*), max(coalesce(lag_back_after, began_before)), NULL),
    if(count(lag_back_before) = count(*), max(lag_back_before), NULL), 'log', NULL, NULL
  FROM {gold.rebalance_cost}
  WHERE lag_peak > lag_before AND (is_live OR lag_back_before >= :since)
  GROUP BY cluster_id, cluster, group_id, rebalance_id
  UNION ALL
  SELECT kind, cluster_id, cluster, NULL, NULL, group_id, NULL, array(), not_well[0].topic, partitions_not_well, lag_max,
    valid_from, valid_from, coalesce(last_seen_at, valid_to), valid_to, 'polls', burrow_status, NULL
  FROM lagging
  LATERAL VIEW explode(if(is_stopped, array('lag', 'group_stopped'), array('lag'))) AS kind
)

SELECT * FROM found WHERE cluster IN (:clusters)
