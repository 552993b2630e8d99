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
-- A broker that restarts is mostly gone for a moment: the row before counts, also where it had ended.
SELECT what, cluster_id, cluster, NULL, NULL, NULL, broker_id, before, after, NULL, began_after, began_before
FROM (
  WITH brokers AS (
    SELECT cluster_id, cluster, broker_id, rack, concat(host, ':', port) AS address, valid_from AS began_before,
      lag(first_poll) OVER brokers IS NOT NULL AS was_listed, lag(rack) OVER brokers AS prev_rack,
      lag(concat(host, ':', port)) OVER brokers AS prev_address, lag(last_seen_sent_at) OVER brokers AS began_after
    FROM {silver.broker_snapshots}
    WINDOW brokers AS (PARTITION BY cluster_id, cluster, broker_id ORDER BY first_poll)
  )
  SELECT 'broker_rack_changed' AS what, cluster_id, cluster, broker_id, prev_rack AS before, rack AS after,
    began_after, began_before
  FROM brokers WHERE was_listed AND rack IS DISTINCT FROM prev_rack
  UNION ALL
  SELECT 'broker_address_changed', cluster_id, cluster, broker_id, prev_address, address, began_after, began_before
  FROM brokers WHERE address <> prev_address
)
UNION ALL
SELECT 'broker_stale', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL,
  concat(partitions_behind, ' partitions, ', epochs_behind, ' leader epochs behind'), NULL, began_after, began_before
FROM {gold.stale_brokers}
UNION ALL
SELECT 'broker_stale_no_more', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, end_reason, NULL,
  ended_after, ended_before
FROM {gold.stale_brokers} WHERE ended_before IS NOT NULL
UNION ALL
-- A directory of a broker that was gone meanwhile: the row before counts, as of brokers that restart.
SELECT IF(is_online, 'log_dir_online', 'log_dir_failed'), cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, log_dir,
  NULL, began_after, valid_from
FROM (
  SELECT cluster_id, cluster, broker_id, log_dir, is_online, valid_from,
    lag(is_online) OVER dirs AS was_online, lag(last_seen_sent_at) OVER dirs AS began_after
  FROM {silver.log_dirs} WHERE is_online IS NOT NULL
  WINDOW dirs AS (PARTITION BY cluster_id, cluster, broker_id, log_dir ORDER BY first_poll)
)
WHERE is_online <> coalesce(was_online, TRUE)
UNION ALL
-- What moves is in each answer: if the last one of the day before that had any has it, it moves still.
SELECT 'replica_move_began', s.cluster_id, s.cluster, s.topic, s.partition, NULL, s.broker_id, NULL, s.log_dir, NULL,
  NULL, s.first_at
FROM {gold.storage} s
LEFT JOIN (
  SELECT cluster_id, cluster, broker_id, log_dir, day, lag(day) OVER dirs AS prev_day, lag(last_at) OVER dirs AS prev_at
  FROM {gold.storage} WHERE level = 'log_dir'
  WINDOW dirs AS (PARTITION BY cluster_id, cluster, broker_id, log_dir ORDER BY day)
) d
  ON d.cluster_id = s.cluster_id AND d.cluster = s.cluster AND d.broker_id = s.broker_id AND d.log_dir = s.log_dir
    AND d.day = s.day
LEFT JOIN {gold.storage} b
  ON b.cluster_id = s.cluster_id AND b.cluster = s.cluster AND b.day = d.prev_day AND b.broker_id = s.broker_id
    AND b.log_dir = s.log_dir AND b.topic = s.topic AND b.partition = s.partition AND b.level = 'future'
    AND b.last_at >= d.prev_at
WHERE s.level = 'future' AND b.day IS NULL
UNION ALL
-- By the answer that shows it in another directory. A day has a row for each directory: of a replica that moves back on
-- the same day, the last move. One that is told by two answers, as too much changed at once, is not among them.
SELECT 'replica_moved', g.cluster_id, g.cluster, g.topic, g.partition, NULL, g.broker_id, g.log_dir, t.log_dir,
  IF(coalesce(f.last_at, b.last_at) IS NULL, 'not seen to move', NULL),
  coalesce(f.last_at, b.last_at, IF(g.first_at < g.last_at, g.first_at, NULL)), g.last_at
FROM {gold.storage} g
JOIN {gold.storage} t
  ON t.cluster_id = g.cluster_id AND t.cluster = g.cluster AND t.day = g.day AND t.broker_id = g.broker_id
    AND t.topic = g.topic AND t.partition = g.partition AND t.level = 'partition' AND t.log_dir <> g.log_dir
    AND t.first_at <= g.last_at AND (t.last_at > g.last_at OR (t.last_at = g.last_at AND t.replicas > 0))
LEFT JOIN {gold.storage} f
  ON f.cluster_id = t.cluster_id AND f.cluster = t.cluster AND f.day = t.day AND f.broker_id = t.broker_id
    AND f.log_dir = t.log_dir AND f.topic = t.topic AND f.partition = t.partition AND f.level = 'future'
    AND f.last_at < g.last_at
LEFT JOIN (
  SELECT cluster_id, cluster, broker_id, log_dir, day, lag(day) OVER dirs AS prev_day, lag(last_at) OVER dirs AS prev_at
  FROM {gold.storage} WHERE level = 'log_dir'
  WINDOW dirs AS (PARTITION BY cluster_id, cluster, broker_id, log_dir ORDER BY day)
) d
  ON d.cluster_id = t.cluster_id AND d.cluster = t.cluster AND d.broker_id = t.broker_id AND d.log_dir = t.log_dir
    AND d.day = t.day
LEFT JOIN {gold.storage} b
  ON b.cluster_id = t.cluster_id AND b.cluster = t.cluster AND b.day = d.prev_day AND b.broker_id = t.broker_id
    AND b.log_dir = t.log_dir AND b.topic = t.topic AND b.partition = t.partition AND b.level = 'future'
    AND b.last_at >= d.prev_at
WHERE g.level = 'partition' AND g.replicas = 0
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
-- As polls show it, unless the controllers' log says so. Its clock may differ from ours by a minute.
SELECT 'broker_fenced', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, NULL, NULL, prev_sent_at, valid_from
FROM {silver.fenced_brokers} f
WHERE prev_host IS NULL AND NOT EXISTS (
  SELECT 1 FROM {silver.broker_registrations} r
  WHERE r.cluster_id = f.cluster_id AND r.broker_id = f.broker_id
    AND r.is_fenced AND NOT coalesce(r.prev_is_fenced, FALSE)
    AND r.valid_from <= f.valid_from + INTERVAL '1' MINUTE
    AND (f.prev_sent_at IS NULL OR r.valid_from >= f.prev_sent_at - INTERVAL '1' MINUTE)
)
UNION ALL
-- Fenced no more: it is listed by then, or it is not registered either.
SELECT IF(is_listed, 'broker_unfenced', 'broker_unregistered'), cluster_id, cluster, NULL, NULL, NULL, broker_id,
  NULL, NULL, IF(is_listed, NULL, 'not listed'), last_seen_sent_at, valid_to
FROM (
  SELECT f.cluster_id, f.cluster, f.broker_id, f.last_seen_sent_at, f.valid_to,
    count(b.broker_id) > 0 AS is_listed
  FROM {silver.fenced_brokers} f
  LEFT JOIN {silver.broker_snapshots} b
    ON b.cluster_id = f.cluster_id AND b.cluster = f.cluster AND b.broker_id = f.broker_id
    AND b.valid_from <= f.valid_to + INTERVAL '1' MINUTE
    AND (b.valid_to IS NULL OR b.valid_to > f.last_seen_sent_at)
  WHERE f.end_reason IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM {silver.broker_registrations} r
    WHERE r.cluster_id = f.cluster_id AND r.broker_id = f.broker_id
      AND CASE WHEN r.prev_is_fenced AND NOT r.is_fenced THEN r.valid_from
        WHEN r.end_reason IS NOT NULL THEN r.valid_to END
        BETWEEN f.last_seen_sent_at - INTERVAL '1' MINUTE AND f.valid_to + INTERVAL '1' MINUTE
  )
  GROUP BY f.cluster_id, f.cluster, f.broker_id, f.last_seen_sent_at, f.valid_to
)
UNION ALL
SELECT IF(controller_id = -1, 'controller_lost', 'controller_elected'), cluster_id, cluster, NULL, NULL, NULL, NULL,
  nullif(concat_ws(', ', CAST(prev_controller_id AS STRING), concat('epoch ', prev_controller_epoch)), ''),
  concat_ws(', ', CAST(controller_id AS STRING), concat('epoch ', controller_epoch)), NULL, began_after, began_before
FROM {gold.controllers}
UNION ALL
SELECT 'quorum_voters_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat('{', array_join(prev_voters, ','), '}'), concat('{', array_join(voters, ','), '}'), NULL,
  began_after, began_before
FROM {gold.voter_changes}
UNION ALL
SELECT 'quorum_observers_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat('{', array_join(prev_observers, ','), '}'), concat('{', array_join(observers, ','), '}'), NULL,
  prev_sent_at, valid_from
FROM {silver.quorum} WHERE observers <> prev_observers
UNION ALL
SELECT 'quorum_behind', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat('{', array_join(flatten(array(prev_voters_behind, prev_observers_behind)), ','), '}'),
  concat('{', array_join(flatten(array(voters_behind, observers_behind)), ','), '}'), NULL, prev_sent_at, valid_from
FROM {silver.quorum} WHERE voters_behind <> prev_voters_behind OR observers_behind <> prev_observers_behind
UNION ALL
SELECT what, cluster_id, cluster, topic, NULL, group_id, broker_id, before, after, NULL, began_after, began_before
FROM (
  WITH configs AS (
    SELECT *,
      -- It was set before: the row before ended with this one. A value that is not kept is null in both.
      coalesce(first_poll = lag(superseded_poll) OVER (
        PARTITION BY cluster_id, cluster, resource_type, resource_name, name ORDER BY first_poll
      ), FALSE) AS was_set,
      IF(resource_type = 2, resource_name, NULL) AS topic,
      IF(resource_type = 32, resource_name, NULL) AS group_id,
      -- Of all brokers the name is empty.
      IF(resource_type = 4, try_cast(resource_name AS INT), NULL) AS broker_id,
      concat(CASE WHEN resource_type = 4 AND resource_name = '' THEN 'all brokers: '
        WHEN resource_type = 16 THEN concat('client metrics ', resource_name, ': ') ELSE '' END, name) AS setting
    FROM {silver.configs}
  )
  SELECT IF(was_set, 'config_changed', 'config_set') AS what, cluster_id, cluster, topic, group_id, broker_id,
    IF(was_set, coalesce(concat(setting, '=', prev_value), setting), NULL) AS before,
    coalesce(concat(setting, '=', value), setting) AS after,
    prev_sent_at AS began_after, valid_from AS began_before
  FROM configs
  UNION ALL
  SELECT 'config_removed', cluster_id, cluster, topic, group_id,
    broker_id, coalesce(concat(setting, '=', value), setting), NULL, last_seen_sent_at, valid_to
  FROM configs WHERE end_reason IS NOT NULL
)
UNION ALL
-- In effect, as polls show it, unless the controllers' log has a change of it then. Its clock may differ from ours by a
-- minute.
SELECT 'config_changed', cluster_id, cluster, topic, NULL, NULL, NULL, concat(name, '=', prev_value),
  concat(name, '=', value), NULL, prev_sent_at, valid_from
FROM (
  SELECT cluster_id, cluster, topic, 'min.insync.replicas' AS name, prev_sent_at, valid_from,
    CAST(prev_min_insync_replicas AS STRING) AS prev_value, CAST(min_insync_replicas AS STRING) AS value
  FROM {silver.topic_configs}
  UNION ALL
  SELECT cluster_id, cluster, topic, 'unclean.leader.election.enable', prev_sent_at, valid_from,
    CAST(prev_unclean_leader_election_enable AS STRING), CAST(unclean_leader_election_enable AS STRING)
  FROM {silver.topic_configs}
) t
WHERE value <> prev_value AND NOT EXISTS (
  SELECT 1 FROM (
    SELECT cluster_id, resource_type, resource_name, name, valid_from AS at FROM {silver.configs}
    UNION ALL
    SELECT cluster_id, resource_type, resource_name, name, valid_to FROM {silver.configs} WHERE valid_to IS NOT NULL
  ) c
  WHERE c.cluster_id = t.cluster_id AND c.name = t.name
    AND (c.resource_type = 4 OR (c.resource_type = 2 AND c.resource_name = t.topic))
    AND c.at BETWEEN t.prev_sent_at - INTERVAL '1' MINUTE AND t.valid_from + INTERVAL '1' MINUTE
)
UNION ALL
SELECT change, cluster_id, cluster, NULL, NULL, NULL, NULL, NULL, NULL, NULL, began_after, began_before
FROM {gold.access_changes}
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
SELECT 'partitions_added', cluster_id, cluster, topic, NULL, NULL, NULL, CAST(prev_partition_count AS STRING),
  CAST(partition_count AS STRING), NULL, prev_sent_at, valid_from
FROM {silver.topic_snapshots} WHERE partition_count > prev_partition_count
UNION ALL
-- While replicas move, a partition has more of them: those that a reassignment adds do not count if it removes others.
-- Where nobody asks for reassignments (enrichment `reassignments`), they count.
SELECT 'replication_factor_changed', cluster_id, cluster, topic, partition, NULL, NULL, CAST(before AS STRING),
  CAST(after AS STRING), NULL, prev_sent_at, valid_from
FROM (
  SELECT p.cluster_id, p.cluster, p.topic, p.partition, p.prev_sent_at, p.valid_from, p.after,
    p.before - coalesce(max(r.moving), 0) AS before, count(r.moving) > 0 AND p.after > p.before AS begins_to_move
  FROM (
    SELECT cluster_id, cluster, topic, partition, prev_sent_at, valid_from, size(prev_replicas) AS before,
      size(replicas) AS after
    FROM {silver.partition_snapshots} WHERE size(replicas) <> size(prev_replicas)
  ) p
  LEFT JOIN (
    SELECT cluster_id, cluster, topic, partition, valid_from, valid_to, size(adding_replicas) AS moving
    FROM {silver.reassignments} WHERE size(adding_replicas) > 0 AND size(removing_replicas) > 0
  ) r ON r.cluster_id = p.cluster_id AND r.cluster = p.cluster AND r.topic = p.topic AND r.partition = p.partition
    AND r.valid_from <= p.valid_from + INTERVAL '1' MINUTE
    AND (r.valid_to IS NULL OR r.valid_to >= p.prev_sent_at - INTERVAL '1' MINUTE)
  GROUP BY p.cluster_id, p.cluster, p.topic, p.partition, p.prev_sent_at, p.valid_from, p.before, p.after
)
WHERE before <> after AND NOT begins_to_move
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
  array_join(reasons, ', '), ended_after, lasts_until
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
-- A group is behind while it is not OK by Burrow, which judges by ten polls: one that falls behind and catches up again
-- and again makes two events in that time at most. Lag above 0 is no event: most groups have some at any time.
SELECT IF(burrow_status = 'OK', 'group_behind_no_more', 'group_behind'), cluster_id, cluster, NULL, NULL, group_id, NULL,
  prev_burrow_status, concat(burrow_status, coalesce(concat(', lag ', lag_min, ' to ', lag_max), '')), NULL,
  prev_seen_at, valid_from
FROM {gold.group_lag}
-- Rows of older versions have no prev_seen_at.
WHERE prev_seen_at IS NOT NULL AND (burrow_status = 'OK') <> (coalesce(prev_burrow_status, 'OK') = 'OK')
UNION ALL
SELECT 'group_behind_no_more', cluster_id, cluster, NULL, NULL, group_id, NULL,
  coalesce(burrow_status, prev_burrow_status), end_reason, NULL, last_seen_at, valid_to
FROM {gold.group_lag} WHERE end_reason IS NOT NULL AND coalesce(burrow_status, prev_burrow_status) <> 'OK'
UNION ALL
-- The topic is one of those that the transaction wrote to. Most of Kafka's own are of groups whose offsets it commits.
SELECT what, cluster_id, cluster, get(filter(partitions, each -> left(each.topic, 2) <> '__'), 0).topic, NULL, NULL,
  NULL, before, after, inferred, began_after, began_before
FROM (
  SELECT 'transaction_aborted' AS what, cluster_id, cluster, partitions, CAST(NULL AS STRING) AS before,
    transactional_id AS after, reason AS inferred, prepared_after AS began_after, prepared_before AS began_before
  FROM {gold.transactions} WHERE aborted_by = 'coordinator'
  UNION ALL
  SELECT 'transaction_overdue', cluster_id, cluster, partitions, NULL, transactional_id, NULL, overdue_since,
    overdue_since
  FROM {gold.transactions} WHERE overdue_since IS NOT NULL
  UNION ALL
  SELECT 'transaction_stuck_completing', cluster_id, cluster, partitions, NULL, transactional_id, NULL,
    stuck_completing_since, stuck_completing_since
  FROM {gold.transactions} WHERE stuck_completing_since IS NOT NULL
  UNION ALL
  SELECT 'transaction_stuck_no_more', cluster_id, cluster, partitions, transactional_id, outcome, NULL,
    IF(stuck_completing_since IS NULL, prepared_after, ended_after),
    IF(stuck_completing_since IS NULL, prepared_before, ended_before)
  FROM {gold.transactions} WHERE coalesce(stuck_completing_since, overdue_since) IS NOT NULL
)
WHERE began_before IS NOT NULL
UNION ALL
SELECT 'mark_began', c.cluster_id, c.cluster, NULL, NULL, NULL, NULL, NULL, m.text, NULL, m.since, m.since
FROM {gold.marks} m JOIN {internal.clusters} c ON m.cluster IS NULL OR m.cluster = c.cluster
UNION ALL
SELECT 'mark_ended', c.cluster_id, c.cluster, NULL, NULL, NULL, NULL, m.text, NULL, NULL, m.until, m.until
FROM {gold.marks} m JOIN {internal.clusters} c ON m.cluster IS NULL OR m.cluster = c.cluster
WHERE m.until IS NOT NULL
