-- Of ISRs and leaders. Where these mean nothing, nothing is known to be good.
WITH observed AS (
  SELECT o.cluster_id, o.cluster, k.since, o.until, o.gaps, k.hides_leader, k.hides_isr
  FROM {silver.observed} o
  JOIN (
    SELECT cluster_id, cluster, min(valid_from) AS since,
      bool_or(exists(not_meaningful, each -> each LIKE 'leader:%' OR each LIKE 'offline:%')) AS hides_leader,
      bool_or(exists(not_meaningful, each -> each LIKE 'isr:%')) AS hides_isr
    FROM {silver.cluster_snapshots}
    GROUP BY cluster_id, cluster
  ) k ON k.cluster_id = o.cluster_id AND k.cluster = o.cluster
  WHERE o.history = 'isr_shrink' AND o.until IS NOT NULL
),

spans AS (
  SELECT cluster_id, cluster, topic, partition, level = 'offline' AS is_of_reads,
    inline(array(struct(true AS is_sure, began_before AS since, ended_after AS until),
      struct(false AS is_sure, coalesce(began_after, began_before) AS since, ended_before AS until)))
  FROM {gold.isr_episodes}
  WHERE level IN ('offline', 'under_min_isr')
  UNION ALL
  -- Where the min ISR is not known, each ISR that lacks a replica may be too small.
  SELECT e.cluster_id, e.cluster, e.topic, e.partition, false, false,
    coalesce(e.began_after, e.began_before), e.ended_before
  FROM {gold.isr_episodes} e
  LEFT JOIN {silver.topic_configs} c
    ON c.cluster_id = e.cluster_id AND c.cluster = e.cluster AND c.topic = e.topic
      AND c.min_insync_replicas IS NOT NULL
      AND c.valid_from <= e.began_before AND (c.valid_to IS NULL OR c.valid_to >= e.ended_before)
  WHERE e.level = 'under_replicated' AND c.topic IS NULL
  UNION ALL
  -- Between two polls. A change that none of them saw may have been to no leader.
  SELECT cluster_id, cluster, topic, partition, true, false, began_after, began_before
  FROM {gold.leader_changes}
  WHERE changes_max IS NULL OR changes_max > 1
  UNION ALL
  -- Without epochs each change may be one that no poll saw.
  SELECT cluster_id, cluster, topic, partition, true, false, coalesce(prev_sent_at, valid_from), valid_to
  FROM {silver.partition_snapshots}
  WHERE leader_epoch IS NULL
),

-- Of a partition each second counts once, and who cannot read cannot write.
stretches AS (
  SELECT cluster_id, cluster, topic, of, is_sure, until,
    greatest(since, max(until) OVER (
      PARTITION BY cluster_id, cluster, topic, partition, of, is_sure ORDER BY since, until
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS since
  FROM (
    SELECT s.cluster_id, s.cluster, s.topic, s.partition, s.is_sure, s.since,
      least(coalesce(s.until, o.until), o.until) AS until,
      explode(IF(s.is_of_reads, array('reads', 'writes'), array('writes'))) AS of
    FROM spans s JOIN observed o ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster
  )
),

-- Maintenance that somebody marked; marks may overlap.
marked AS (
  SELECT o.cluster_id, o.cluster, m.until,
    greatest(m.since, max(m.until) OVER (
      PARTITION BY o.cluster_id, o.cluster ORDER BY m.since, m.until
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS since
  FROM {gold.marks} m JOIN observed o ON m.cluster IS NULL OR m.cluster = o.cluster
  WHERE m.until IS NOT NULL
),

counted AS (
  SELECT cluster_id, cluster, topic, of, is_sure, NOT is_sure AS is_most, 1 AS partitions, since, until FROM stretches
  UNION ALL
  SELECT s.cluster_id, s.cluster, s.topic, concat('marked ', s.of), s.is_sure, NOT s.is_sure, 1,
    greatest(s.since, m.since), least(s.until, m.until)
  FROM stretches s
  JOIN marked m
    ON m.cluster_id = s.cluster_id AND m.cluster = s.cluster AND m.since < s.until AND m.until > s.since
  UNION ALL
  SELECT t.cluster_id, t.cluster, t.topic, 'there', true, true, t.partition_count, t.valid_from,
    least(IF(t.end_reason IS NULL, coalesce(t.valid_to, o.until), t.last_seen_sent_at), o.until)
  FROM {silver.topic_snapshots} t JOIN observed o ON o.cluster_id = t.cluster_id AND o.cluster = t.cluster
  UNION ALL
  SELECT cluster_id, cluster, topic, 'there', false, true,
    partition_count - coalesce(prev_partition_count, 0), prev_sent_at, valid_from
  FROM {silver.topic_snapshots}
  UNION ALL
  SELECT cluster_id, cluster, topic, 'there', false, true, partition_count, last_seen_sent_at, valid_to
  FROM {silver.topic_snapshots}
  WHERE end_reason IS NOT NULL
),

-- The gaps of each day alone, or each piece would be held against all of them.
gaps AS (
  SELECT cluster_id, cluster, hides_leader, hides_isr, day,
    filter(gaps, gap -> coalesce(gap.gap_end > CAST(day AS TIMESTAMP), true)
      AND coalesce(gap.gap_start < CAST(date_add(CAST(day AS DATE), 1) AS TIMESTAMP), true)) AS gaps
  FROM (
    SELECT *, explode(sequence(CAST(since AS DATE), CAST(until AS DATE), INTERVAL '1' DAY)) AS day FROM observed
  )
),

pieces AS (
  SELECT cluster_id, cluster, topic, day, of, is_sure, is_most, partitions,
    greatest(since, CAST(day AS TIMESTAMP)) AS since,
    least(until, CAST(date_add(CAST(day AS DATE), 1) AS TIMESTAMP)) AS until
  FROM (
    SELECT *, explode(sequence(CAST(since AS DATE), CAST(until AS DATE), INTERVAL '1' DAY)) AS day
    FROM counted
    WHERE since < until AND partitions > 0
  )
),

days AS (
  SELECT p.cluster_id, p.cluster, p.topic, p.day, p.of, p.is_sure, p.is_most, g.hides_leader, g.hides_isr,
    p.partitions * (unix_micros(p.until) - unix_micros(p.since)) AS us,
    p.partitions * coalesce(aggregate(g.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, p.until)) - unix_micros(greatest(gap.gap_start, p.since)))), 0) AS unobserved_us
  FROM pieces p
  JOIN gaps g ON g.cluster_id = p.cluster_id AND g.cluster = p.cluster AND g.day = p.day
  WHERE p.since < p.until
)

SELECT cluster_id, cluster, topic, CAST(day AS DATE) AS day,
  sum(IF(of = 'there' AND is_sure, us - unobserved_us, 0)) / 1e6 AS partition_s_min,
  sum(IF(of = 'there' AND is_most, us, 0)) / 1e6 AS partition_s_max,
  sum(IF(of = 'there' AND is_most, unobserved_us, 0)) / 1e6 AS not_observed_s,
  sum(IF(of = 'reads' AND is_sure, us - unobserved_us, 0)) / 1e6 AS bad_for_reads_s_min,
  IF(bool_or(hides_leader), NULL, sum(IF(of = 'reads' AND is_most, us - unobserved_us, 0)) / 1e6)
    AS bad_for_reads_s_max,
  sum(IF(of = 'writes' AND is_sure, us - unobserved_us, 0)) / 1e6 AS bad_for_writes_s_min,
  IF(bool_or(hides_leader OR hides_isr), NULL, sum(IF(of = 'writes' AND is_most, us - unobserved_us, 0)) / 1e6)
    AS bad_for_writes_s_max,
  sum(IF(of = 'marked reads' AND is_sure, us - unobserved_us, 0)) / 1e6 AS marked_bad_for_reads_s_min,
  IF(bool_or(hides_leader), NULL, sum(IF(of = 'marked reads' AND is_most, us - unobserved_us, 0)) / 1e6)
    AS marked_bad_for_reads_s_max,
  sum(IF(of = 'marked writes' AND is_sure, us - unobserved_us, 0)) / 1e6 AS marked_bad_for_writes_s_min,
  IF(bool_or(hides_leader OR hides_isr), NULL, sum(IF(of = 'marked writes' AND is_most, us - unobserved_us, 0)) / 1e6)
    AS marked_bad_for_writes_s_max
FROM days
GROUP BY cluster_id, cluster, topic, day
