-- Polls look at an instant, and nothing is known of what happened in a gap between them. Of topics the controllers' log
-- tells more: what polls missed while it told, it has.
WITH silver AS (
  SELECT cluster_id, cluster, done_at, last_seen_at, changed_poll FROM {internal.clusters}
),

histories AS (
  SELECT cluster_id, cluster, 'polls' AS history, last_seen_at AS until FROM silver
  UNION ALL
  SELECT h.cluster_id, h.cluster, h.history,
    -- Where nothing has changed since, it is as far as silver is.
    CASE WHEN h.done_poll >= s.changed_poll THEN s.done_at ELSE h.done_at END
  FROM {internal.state} h JOIN silver s ON s.cluster_id = h.cluster_id AND s.cluster = h.cluster
  WHERE h.history IN ('isr_shrink', 'leader_churn', 'rebalance_history')
  UNION ALL
  SELECT cluster_id, cluster, CASE WHEN history = 'rebalance_history' THEN 'group_log' ELSE history END,
    CASE WHEN history = 'rebalance_history' THEN last_seen_at ELSE done_at END
  FROM {internal.state}
  WHERE history IN ('rebalance_history', 'group_lag', 'cluster_log')
),

-- From when to when the controllers' log told of topics. Where polls took over late, what they showed first is as far
-- from the log's end as two polls around a gap are from each other.
logged AS (
  SELECT cluster_id, cluster, valid_from AS since, last_seen_at AS until,
    CASE WHEN unix_micros(valid_to) - unix_micros(last_seen_at) > 2000 * next_interval_ms
      THEN valid_to ELSE last_seen_at END AS polled_from,
    lead(valid_from) OVER (PARTITION BY cluster_id, cluster ORDER BY valid_from) AS next_since
  FROM (
    SELECT *, lead(interval_ms) OVER (PARTITION BY cluster_id, cluster ORDER BY first_poll) AS next_interval_ms
    FROM {silver.history_sources}
  )
  WHERE source = 'log'
),

polled AS (
  SELECT cluster_id, cluster, CAST(NULL AS TIMESTAMP) AS since, min(since) AS until
  FROM logged
  GROUP BY cluster_id, cluster
  UNION ALL
  SELECT cluster_id, cluster, polled_from, next_since FROM logged WHERE polled_from IS NOT NULL
),

gaps AS (
  SELECT cluster_id, cluster, gap_start, gap_end FROM {silver.poll_gaps}
  UNION ALL
  -- Before the first poll. Where retention has dropped the beginning, nobody knows any more when that was.
  SELECT c.cluster_id, c.cluster, CAST(NULL AS TIMESTAMP), c.began
  FROM (
    SELECT cluster_id, cluster, min(valid_from) AS began FROM {silver.cluster_snapshots} GROUP BY cluster_id, cluster
  ) c
  CROSS JOIN (SELECT max(done_at) AS kept_since FROM {internal.state} WHERE history = 'retention of silver') r
  WHERE r.kept_since IS NULL OR c.began >= r.kept_since
),

unobserved AS (
  SELECT h.cluster_id, h.cluster, h.history, g.gap_start, least(g.gap_end, h.until) AS gap_end
  FROM histories h JOIN gaps g ON g.cluster_id = h.cluster_id AND g.cluster = h.cluster
  WHERE h.history IN ('polls', 'rebalance_history', 'group_lag')
  UNION ALL
  SELECT h.cluster_id, h.cluster, h.history, greatest(g.gap_start, p.since), least(g.gap_end, p.until, h.until)
  FROM histories h
  JOIN gaps g ON g.cluster_id = h.cluster_id AND g.cluster = h.cluster
  LEFT JOIN polled p ON p.cluster_id = h.cluster_id AND p.cluster = h.cluster
  WHERE h.history IN ('isr_shrink', 'leader_churn')
  UNION ALL
  SELECT h.cluster_id, h.cluster, h.history, l.until, least(l.polled_from, h.until)
  FROM histories h JOIN logged l ON l.cluster_id = h.cluster_id AND l.cluster = h.cluster
  WHERE h.history IN ('isr_shrink', 'leader_churn') AND l.polled_from > l.until
),

stretches AS (
  SELECT * FROM unobserved WHERE gap_start IS NULL OR gap_start < gap_end
  UNION ALL
  SELECT cluster_id, cluster, history, until, CAST(NULL AS TIMESTAMP) FROM histories WHERE until IS NOT NULL
)

SELECT h.cluster_id, h.cluster, h.history, h.until, s.gaps
FROM histories h
LEFT JOIN (
  SELECT cluster_id, cluster, history, array_sort(collect_list(struct(gap_start, gap_end))) AS gaps
  FROM stretches
  GROUP BY cluster_id, cluster, history
) s ON s.cluster_id = h.cluster_id AND s.cluster = h.cluster AND s.history = h.history
