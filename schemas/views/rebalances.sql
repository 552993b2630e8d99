-- What the log or polls tell of a rebalance, and what else is known of it. Each context is made of rebalances again,
-- and joined by what people filter by: an engine then filters there too, and Spark leaves out a context that nobody
-- asks for. A filter of lasts_until reaches each context; Spark skips files by a filter of ended_before alone.
WITH told AS (
  SELECT *, coalesce(ended_before, TIMESTAMP'9999-12-31 00:00:00Z') AS lasts_until FROM {internal.rebalances}
),

settled AS (
  SELECT cluster_id, max(done_at) AS settled_at FROM {internal.clusters} GROUP BY cluster_id
),

logged AS (
  SELECT cluster_id, group_id, min(valid_from) AS logged_from
  FROM {gold.group_lives}
  WHERE source = 'log'
  GROUP BY cluster_id, group_id
),

led AS (
  SELECT *,
    lead(began_after) OVER (PARTITION BY cluster_id, log_partition ORDER BY poll) AS next_after,
    lead(began_before) OVER (PARTITION BY cluster_id, log_partition ORDER BY poll) AS next_before
  FROM {silver.coordinators}
),

-- Months (30 days) in which a leader, or the look-ahead of its coming, may matter: without them each rebalance would
-- be compared with each leader that its partition ever had.
led_in AS (
  SELECT l.*, s.settled_at,
    explode(sequence(
      unix_micros(coalesce(l.began_after, l.began_before)) DIV 2592000000000,
      unix_micros(greatest(coalesce(l.next_before, s.settled_at), l.followed_until)) DIV 2592000000000
    )) AS month
  FROM led l JOIN settled s ON s.cluster_id = l.cluster_id
  -- Without a leader it is the end of the topic, which ends the row before alone.
  WHERE l.leader IS NOT NULL
),

asked AS (
  SELECT r.id, r.cluster_id, r.cluster, r.group_id, r.log_partition, r.began_before, r.ended_before,
    r.ended_leader_epoch, r.lasts_until,
    explode(sequence(
      unix_micros(r.began_before) DIV 2592000000000,
      unix_micros(greatest(r.began_before, coalesce(r.ended_before, s.settled_at))) DIV 2592000000000
    )) AS month
  FROM told r JOIN settled s ON s.cluster_id = r.cluster_id
),

near AS (
  SELECT * FROM (
    SELECT r.id, r.cluster_id, r.cluster, r.group_id, r.log_partition, r.began_before, r.lasts_until,
      l.poll, l.began_before AS led_before, l.leader, l.is_move, l.settled_at,
      -- The poll before and the poll after it agree on the leader.
      r.began_before BETWEEN l.began_before AND coalesce(l.next_after, l.settled_at) AS is_led,
      l.began_before <= r.began_before
        AND coalesce(r.began_before < l.next_before, r.began_before <= l.settled_at) AS is_held,
      -- The leader may have come before it ended, and not too long before it began. What ended under the leader epoch
      -- of before had ended before that leader came, however long the polls leave that open.
      l.followed_until >= r.began_before
        AND (l.began_after IS NULL OR r.ended_before IS NULL OR l.began_after <= r.ended_before)
        AND (l.prev_leader_epoch IS NULL OR r.ended_leader_epoch IS NULL
          OR r.ended_leader_epoch > l.prev_leader_epoch) AS is_near
    FROM asked r
    JOIN led_in l ON l.cluster_id = r.cluster_id AND l.log_partition = r.log_partition AND l.month = r.month
  )
  WHERE is_led OR is_held OR is_near
),

coordinated AS (
  SELECT n.id, n.cluster_id, n.cluster, n.group_id, n.began_before, n.lasts_until,
    max(CASE WHEN n.is_led AND n.leader <> -1 THEN n.leader END) AS coordinator,
    -- A move before the group was there is no event of it, and means nothing to it. Of several the last counts.
    max(CASE WHEN n.is_near AND n.is_move AND g.group_id IS NOT NULL THEN n.poll END) AS move_poll,
    -- A leader of whom it is not known whether another led before, as where the partition was not watched, may have
    -- come by a move.
    max(CASE WHEN n.is_near AND NOT n.is_move THEN 1 ELSE 0 END) = 1 AS is_unsure,
    max(CASE WHEN n.is_held THEN 1 ELSE 0 END) = 1 AS is_watched,
    max(n.settled_at) AS settled_at
  FROM near n
  LEFT JOIN {gold.group_lives} g
    ON g.cluster_id = n.cluster_id AND g.group_id = n.group_id AND g.log_partition = n.log_partition
      AND g.valid_from <= n.led_before AND (g.valid_to IS NULL OR g.valid_to > n.led_before)
  GROUP BY n.id, n.cluster_id, n.cluster, n.group_id, n.began_before, n.lasts_until
),

-- What polls saw begin belongs to the first rebalance whose record (which of classic groups only the end writes) came
-- after it had begun, and before a poll showed it over, unless it had begun by the end of the rebalance before.
begun AS (
  SELECT r.id, r.cluster_id, r.cluster, r.group_id, r.began_before, r.lasts_until,
    min(struct(b.began_before AS by, b.began_after AS after)) AS first
  FROM told r
  JOIN {internal.rebalance_begins} b ON b.cluster_id = r.cluster_id AND b.group_id = r.group_id
  WHERE r.source = 'log' AND r.group_type = 'classic'
    AND (b.began_after IS NULL OR b.began_after < r.began_before)
    AND (b.ended_before IS NULL OR b.ended_before >= r.began_before)
    AND (r.began_after IS NULL OR b.began_before > r.began_after)
    AND (r.since_previous_ms IS NULL
      OR unix_micros(b.began_before) > unix_micros(r.began_before) - 1000 * r.since_previous_ms)
  GROUP BY r.id, r.cluster_id, r.cluster, r.group_id, r.began_before, r.lasts_until
),

-- How many partitions topics had, from when to when. Where polls saw a topic only later, what they saw first counts
-- if it may have been so already; where two states may have been, the earlier. That may be one that retention has
-- dropped: then nothing is known.
topics AS (
  SELECT s.cluster_id, s.topic, s.partition_count, s.valid_to AS until,
    CASE WHEN coalesce(s.prev_sent_at, s.valid_from) < r.kept_since THEN s.valid_from
      ELSE greatest(
        coalesce(s.prev_sent_at, s.valid_from),
        lag(s.valid_to) OVER (PARTITION BY s.cluster_id, s.topic ORDER BY s.first_poll)
      ) END AS since
  FROM {silver.topic_snapshots} s
  CROSS JOIN (SELECT max(done_at) AS kept_since FROM {internal.state} WHERE history = 'retention of silver') r
),

names AS (
  SELECT cluster_id, topic_id, max(topic) AS topic
  FROM {silver.topic_snapshots}
  WHERE topic_id IS NOT NULL
  GROUP BY cluster_id, topic_id
),

-- Topics that members want (has is null), and what they have of topics.
wanted AS (
  SELECT id, cluster_id, cluster, group_id, began_before, coalesce(ended_before, began_before) AS at, lasts_until,
    explode(concat(
      transform(
        subscribed,
        topic -> named_struct('topic', topic, 'topic_id', CAST(NULL AS STRING), 'partitions', CAST(NULL AS INT))
      ),
      assigned
    )) AS has
  FROM told
),

assigned AS (
  SELECT w.id, w.cluster_id, w.cluster, w.group_id, w.began_before, w.lasts_until, w.at,
    coalesce(w.has.topic, n.topic) AS topic,
    coalesce(sum(w.has.partitions), 0) AS partitions,
    max(CASE WHEN w.has.partitions IS NULL THEN 1 ELSE 0 END) = 1 AS is_wanted
  FROM wanted w LEFT JOIN names n ON n.cluster_id = w.cluster_id AND n.topic_id = w.has.topic_id
  GROUP BY w.id, w.cluster_id, w.cluster, w.group_id, w.began_before, w.lasts_until, w.at, coalesce(w.has.topic, n.topic)
),

-- Null where a topic has no name, or it is not known how many partitions it had.
unassigned AS (
  SELECT a.id, a.cluster_id, a.cluster, a.group_id, a.began_before, a.lasts_until,
    CASE WHEN max(CASE WHEN a.topic IS NULL OR (a.is_wanted AND t.partition_count IS NULL) THEN 1 ELSE 0 END) = 0
      THEN CAST(sum(CASE WHEN a.is_wanted THEN greatest(t.partition_count - a.partitions, 0) ELSE 0 END) AS INT)
    END AS partitions
  FROM assigned a
  LEFT JOIN topics t
    ON t.cluster_id = a.cluster_id AND t.topic = a.topic AND t.since <= a.at AND (t.until IS NULL OR t.until > a.at)
  GROUP BY a.id, a.cluster_id, a.cluster, a.group_id, a.began_before, a.lasts_until
),

-- The closer bounds of what polls saw begin; none out of order, were the clocks apart.
bounded AS (
  SELECT r.*,
    greatest(r.began_after, b.first.after) AS after,
    greatest(least(r.began_before, b.first.by), r.began_after, b.first.after) AS by
  FROM told r
  LEFT JOIN begun b
    ON b.id = r.id AND b.cluster_id = r.cluster_id AND b.cluster = r.cluster AND b.group_id = r.group_id
      AND b.began_before = r.began_before AND b.lasts_until = r.lasts_until
),

-- Of all partitions that had committed offsets. If the most is not known of one, it is not known of all.
costs AS (
  SELECT rebalance_id AS id, cluster_id, cluster, group_id, began_before, ended_before AS lasts_until,
    CAST(count(*) AS INT) AS partitions_committed,
    max(pause_ms_min) AS pause_ms_min,
    CASE WHEN count(pause_ms_max) = count(*) THEN max(pause_ms_max) END AS pause_ms_max,
    sum(CAST(lag_before AS DECIMAL(38, 0))) AS lag_before,
    sum(CAST(lag_peak AS DECIMAL(38, 0))) AS lag_peak,
    CASE WHEN count(lag_before) > 0 AND count(lag_before) = count(lag_back_before)
      THEN max(lag_back_before) END AS lag_back_before,
    max(lag_back_after) AS lag_back_after,
    sum(CAST(reprocessed_min AS DECIMAL(38, 0))) AS reprocessed_min,
    CASE WHEN count(reprocessed_min) = count(reprocessed_max) THEN sum(CAST(reprocessed_max AS DECIMAL(38, 0))) END
      AS reprocessed_max,
    sum(CAST(lost_unread AS DECIMAL(38, 0))) AS lost_unread
  FROM {gold.rebalance_cost}
  GROUP BY rebalance_id, cluster_id, cluster, group_id, began_before, ended_before
)

SELECT r.id, r.cluster_id, r.cluster, r.group_id, r.group_type, r.prev_group_type, r.protocol_type, r.source,
  r.generation, r.prev_generation, r.skipped_generations, r.log_partition, r.first_offset, r.last_offset, r.poll,
  r.began_after, r.began_before,
  -- Files are skipped by what is stored, so that polls say closer bounds beside it; how long it took is by those.
  CASE WHEN r.began_after IS NULL OR r.after > r.began_after THEN r.after END AS narrowed_after,
  CASE WHEN r.by < r.began_before THEN r.by END AS narrowed_before,
  r.ended_after, r.ended_before, r.ended_leader_epoch,
  CASE WHEN r.by < r.began_before AND r.ended_before IS NOT NULL
    THEN CAST(greatest(0, floor((unix_micros(r.ended_after) - unix_micros(r.by)) / 1000)) AS BIGINT)
    ELSE r.duration_ms_min END AS duration_ms_min,
  CASE WHEN r.began_after IS NULL OR r.after > r.began_after
    THEN CAST(floor((unix_micros(r.ended_before) - unix_micros(r.after)) / 1000) AS BIGINT)
    ELSE r.duration_ms_max END AS duration_ms_max,
  r.end_reason, r.assignor, r.mode, r.phases, r.group_leader, r.members, r.prev_members, r.members_joined,
  r.members_left, r.members_restarted, r.partitions_kept, r.partitions_moved, r.partitions_added, r.partitions_lost,
  CASE WHEN size(r.subscribed) = 0 AND size(r.assigned) = 0 THEN 0 ELSE u.partitions END AS partitions_unassigned,
  r.subscribed, r.stickiness, r.reasons, r.removed_by, r.assignment_skew,
  r.silent_ms_max,
  r.since_previous_ms + CAST(floor((unix_micros(r.by) - unix_micros(r.began_before)) / 1000) AS BIGINT)
    AS since_previous_ms,
  c.coordinator,
  -- That there was none is said once polls have come past its end, where they had watched the partition for as long
  -- before.
  CASE
    WHEN c.move_poll IS NOT NULL THEN true
    WHEN r.ended_before <= c.settled_at AND c.is_watched AND NOT c.is_unsure THEN false
  END AS followed_coordinator_move,
  CASE WHEN c.move_poll IS NOT NULL
    THEN md5(concat_ws('\n', r.cluster_id, r.group_id, 'coordinator_moved', c.move_poll)) END AS coordinator_move_id,
  o.partitions_committed, o.pause_ms_min, o.pause_ms_max,
  CASE WHEN o.lag_before IS NOT NULL THEN CAST(least(o.lag_before, 9223372036854775807) AS BIGINT) END AS lag_before,
  CASE WHEN o.lag_peak IS NOT NULL THEN CAST(least(o.lag_peak, 9223372036854775807) AS BIGINT) END AS lag_peak,
  o.lag_back_after, o.lag_back_before,
  -- A client may commit any offset, and no bigint holds the sum of such.
  CASE WHEN o.reprocessed_min IS NOT NULL THEN CAST(least(o.reprocessed_min, 9223372036854775807) AS BIGINT) END
    AS reprocessed_min,
  CASE WHEN o.reprocessed_max IS NOT NULL THEN CAST(least(o.reprocessed_max, 9223372036854775807) AS BIGINT) END
    AS reprocessed_max,
  CASE WHEN o.lost_unread IS NOT NULL THEN CAST(least(o.lost_unread, 9223372036854775807) AS BIGINT) END AS lost_unread,
  r.updated_at,
  r.lasts_until, r.ended_before IS NULL AS is_open
FROM bounded r
LEFT JOIN logged g ON g.cluster_id = r.cluster_id AND g.group_id = r.group_id
LEFT JOIN coordinated c
  ON c.id = r.id AND c.cluster_id = r.cluster_id AND c.cluster = r.cluster AND c.group_id = r.group_id
    AND c.began_before = r.began_before AND c.lasts_until = r.lasts_until
LEFT JOIN unassigned u
  ON u.id = r.id AND u.cluster_id = r.cluster_id AND u.cluster = r.cluster AND u.group_id = r.group_id
    AND u.began_before = r.began_before AND u.lasts_until = r.lasts_until
LEFT JOIN costs o
  ON o.id = r.id AND o.cluster_id = r.cluster_id AND o.cluster = r.cluster AND o.group_id = r.group_id
    AND o.began_before = r.began_before AND o.lasts_until = r.lasts_until
-- Polls tell of a group until its log does: from there on what they told is hidden.
WHERE r.source = 'log' OR g.logged_from IS NULL OR r.began_before < g.logged_from
