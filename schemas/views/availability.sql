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

-- All else is joined with days first, so that who asks for some days does not pay for the others. A day has its gaps
-- alone, or each piece of it would be held against all of them.
days AS (
  SELECT cluster_id, cluster, until AS observed_until, hides_leader, hides_isr, number, CAST(begins AS DATE) AS day,
    begins, ends,
    filter(gaps, gap -> coalesce(gap.gap_end > begins, true) AND coalesce(gap.gap_start < ends, true)) AS gaps
  FROM (
    SELECT *, timestamp_micros(number * 86400000000) AS begins, timestamp_micros((number + 1) * 86400000000) AS ends
    FROM (
      SELECT *, explode(sequence(unix_micros(since) DIV 86400000000, unix_micros(until) DIV 86400000000)) AS number
      FROM observed
    )
  )
),

-- A row for each day that a span may touch; a second one does no harm, as each second counts once. Almost all spans
-- touch the day alone in which they had begun.
pieces AS (
  SELECT s.*, d.day, d.observed_until
  FROM {internal.bad_spans} s
  JOIN days d
    ON d.cluster_id = s.cluster_id AND d.cluster = s.cluster
      AND d.number = unix_micros(s.began_before) DIV 86400000000
      -- The number says so, too, but what is compared with a column itself lets DuckDB pass over files.
      AND d.begins <= s.began_before AND d.ends > s.began_before
  WHERE s.ended_before IS NOT NULL
  UNION ALL
  -- Over midnight.
  SELECT s.*, d.day, d.observed_until
  FROM {internal.bad_spans} s
  JOIN days d
    ON d.cluster_id = s.cluster_id AND d.cluster = s.cluster
      AND d.begins < s.ended_before AND d.ends > coalesce(s.began_after, s.began_before)
  WHERE unix_micros(coalesce(s.began_after, s.began_before)) DIV 86400000000
    < unix_micros(s.ended_before) DIV 86400000000
  UNION ALL
  -- Those that last.
  SELECT s.*, d.day, d.observed_until
  FROM {internal.bad_spans} s
  JOIN days d
    ON d.cluster_id = s.cluster_id AND d.cluster = s.cluster AND d.ends > coalesce(s.began_after, s.began_before)
  WHERE s.ended_before IS NULL
),

-- Of a partition each second of a day counts once, and who cannot read cannot write.
stretches AS (
  SELECT cluster_id, cluster, topic, day, of, is_sure, until,
    greatest(since, max(until) OVER (
      PARTITION BY cluster_id, cluster, topic, partition, day, of, is_sure ORDER BY since, until
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS since
  FROM (
    SELECT cluster_id, cluster, topic, partition, day, is_sure, since, least(until, observed_until) AS until,
      explode(IF(is_bad_for_reads, array('reads', 'writes'), array('writes'))) AS of
    FROM (
      SELECT cluster_id, cluster, topic, partition, day, observed_until, is_bad_for_reads,
        inline(array(struct(true AS is_sure, IF(is_sure, began_before, NULL) AS since, ended_after AS until),
          struct(false AS is_sure, coalesce(began_after, began_before) AS since, ended_before AS until)))
      FROM pieces
    )
  )
  WHERE since < until
),

-- Each day is counted as a whole. Maintenance that somebody marked is counted beside it. Marks may overlap.
windows AS (
  SELECT cluster_id, cluster, day, hides_leader, hides_isr, gaps, '' AS what, begins AS since, ends AS until FROM days
  UNION ALL
  SELECT d.cluster_id, d.cluster, d.day, d.hides_leader, d.hides_isr, d.gaps, 'marked ',
    greatest(m.since, d.begins), least(m.until, d.ends)
  FROM days d
  JOIN (
    SELECT o.cluster_id, o.cluster, m.until,
      greatest(m.since, max(m.until) OVER (
        PARTITION BY o.cluster_id, o.cluster ORDER BY m.since, m.until
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS since
    FROM {gold.marks} m JOIN observed o ON m.cluster IS NULL OR m.cluster = o.cluster
    WHERE m.until IS NOT NULL
  ) m ON m.cluster_id = d.cluster_id AND m.cluster = d.cluster AND m.since < d.ends AND m.until > d.begins
),

there AS (
  SELECT t.cluster_id, t.cluster, t.topic, true AS is_sure, t.partition_count AS partitions, t.valid_from AS since,
    least(IF(t.end_reason IS NULL, t.valid_to, t.last_seen_sent_at), o.until) AS until
  FROM {silver.topic_snapshots} t JOIN observed o ON o.cluster_id = t.cluster_id AND o.cluster = t.cluster
  UNION ALL
  SELECT cluster_id, cluster, topic, false, partition_count - coalesce(prev_partition_count, 0), prev_sent_at, valid_from
  FROM {silver.topic_snapshots}
  UNION ALL
  SELECT cluster_id, cluster, topic, false, partition_count, last_seen_sent_at, valid_to
  FROM {silver.topic_snapshots}
  WHERE end_reason IS NOT NULL
),

counted AS (
  SELECT s.cluster_id, s.cluster, s.topic, s.day, w.hides_leader, w.hides_isr, w.gaps, concat(w.what, s.of) AS of,
    s.is_sure, NOT s.is_sure AS is_most, 1 AS partitions, greatest(s.since, w.since) AS since,
    least(s.until, w.until) AS until
  FROM stretches s
  JOIN windows w
    ON w.cluster_id = s.cluster_id AND w.cluster = s.cluster AND w.day = s.day
      AND w.since < s.until AND w.until > s.since
  UNION ALL
  SELECT t.cluster_id, t.cluster, t.topic, d.day, d.hides_leader, d.hides_isr, d.gaps, 'there',
    t.is_sure, true, t.partitions, greatest(t.since, d.begins), least(t.until, d.ends)
  FROM there t
  JOIN days d
    ON d.cluster_id = t.cluster_id AND d.cluster = t.cluster AND d.begins < t.until AND d.ends > t.since
  WHERE t.partitions > 0
),

measured AS (
  SELECT *, partitions * (unix_micros(until) - unix_micros(since)) AS us,
    partitions * coalesce(aggregate(gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, until)) - unix_micros(greatest(gap.gap_start, since)))), 0) AS unobserved_us
  FROM counted
  WHERE since < until
)

SELECT cluster_id, cluster, topic, day,
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
FROM measured
GROUP BY cluster_id, cluster, topic, day
