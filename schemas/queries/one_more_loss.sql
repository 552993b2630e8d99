-- How long would one more broker or rack lost have hurt?
-- The part of the window in which a partition lacked a replica in its ISR, and the next loss (of one broker, or of all
-- of one rack) would have left it without one in its ISR (offline, or led by an unclean election), or with fewer than
-- min.insync.replicas (under_min_isr). Partitions that are so at a time count it once; partitions and topics are those
-- that it may have been. always: topics that are so with all replicas in sync, at the window's end (RF 1, RF at most
-- min ISR, too many replicas in a rack); no second counts such a partition. not_observed_s is how much of the window
-- nobody observed: none of it is in the least. If nobody told a min ISR, or the rack of a broker, the most alone counts
-- it. While a reassignment runs, the replicas that it adds count.
-- theme: maintenance
WITH told AS (
  SELECT cluster_id, broker_id, valid_from, max(rack) AS rack
  FROM (
    SELECT cluster_id, broker_id, valid_from, rack FROM silver.broker_snapshots
    UNION ALL
    SELECT cluster_id, broker_id, valid_from, rack FROM silver.broker_registrations
  )
  WHERE valid_from <= CAST(:until AS TIMESTAMP)
  GROUP BY cluster_id, broker_id, valid_from
),

-- A broker that is down keeps the rack that it had last. Before it was told of, it has the first.
racks AS (
  SELECT cluster_id, broker_id, rack, CASE WHEN NOT is_first THEN valid_from END AS valid_from,
    lead(valid_from) OVER (PARTITION BY cluster_id, broker_id ORDER BY valid_from) AS valid_to
  FROM (
    SELECT *, lag(valid_from) OVER by_broker IS NULL AS is_first,
      lag(rack) OVER by_broker IS DISTINCT FROM rack AS is_new
    FROM told
    WINDOW by_broker AS (PARTITION BY cluster_id, broker_id ORDER BY valid_from)
  )
  WHERE is_first OR is_new
),

clusters AS (
  SELECT o.cluster_id, o.cluster, o.gaps, coalesce(r.changes, CAST(array() AS ARRAY<TIMESTAMP>)) AS changes,
    coalesce(r.has_racks, false) AS has_racks
  FROM silver.observed o
  JOIN silver.cluster_snapshots s
    ON s.cluster_id = o.cluster_id AND s.cluster = o.cluster AND s.valid_from <= CAST(:until AS TIMESTAMP)
      AND (s.valid_to IS NULL OR s.valid_to > CAST(:until AS TIMESTAMP))
      AND NOT exists(s.not_meaningful, each -> each LIKE 'isr:%' OR each LIKE 'replicas:%')
  LEFT JOIN (
    SELECT cluster_id, array_sort(collect_set(valid_from)) AS changes, bool_or(rack IS NOT NULL) AS has_racks
    FROM racks
    GROUP BY cluster_id
  ) r ON r.cluster_id = o.cluster_id
  WHERE o.history = 'isr_shrink' AND (CAST(:cluster AS STRING) IS NULL OR o.cluster = :cluster)
),

-- Where nobody told of a topic's setting for a while, it is the one before or the one after.
min_isrs AS (
  SELECT cluster_id, topic, min_insync_replicas AS min_isr,
    CASE WHEN lag(valid_from) OVER by_topic IS NOT NULL THEN valid_from END AS surely_from,
    CASE WHEN lead(valid_from) OVER by_topic IS NOT NULL THEN last_seen_sent_at END AS surely_until,
    lag(last_seen_sent_at) OVER by_topic AS maybe_from,
    lead(valid_from) OVER by_topic AS maybe_until
  FROM silver.topic_configs
  WHERE min_insync_replicas IS NOT NULL
  WINDOW by_topic AS (PARTITION BY cluster_id, topic ORDER BY valid_from)
),

-- Partitions that lack a replica in the ISR, and all that are there at the window's end. era: how many times racks had
-- changed then.
states AS (
  SELECT p.cluster_id, p.topic, p.partition, p.isr, p.replicas, p.is_short, p.is_last, p.era, m.min_isr,
    greatest(p.surely_from, m.surely_from) AS surely_from, least(p.surely_until, m.surely_until) AS surely_until,
    greatest(p.maybe_from, m.maybe_from) AS maybe_from, least(p.maybe_until, m.maybe_until) AS maybe_until
  FROM (
    SELECT p.cluster_id, p.topic, p.partition, p.isr, p.replicas,
      greatest(p.valid_from, CAST(:since AS TIMESTAMP)) AS surely_from,
      least(CASE WHEN p.valid_to IS NOT NULL THEN p.last_seen_sent_at END, CAST(:until AS TIMESTAMP)) AS surely_until,
      greatest(p.prev_sent_at, CAST(:since AS TIMESTAMP)) AS maybe_from,
      least(p.valid_to, CAST(:until AS TIMESTAMP)) AS maybe_until,
      size(p.isr) < size(p.replicas) AND (p.leader IS NULL OR p.leader <> -1) AS is_short,
      p.valid_to IS NULL OR p.valid_to > CAST(:until AS TIMESTAMP) AS is_last,
      size(filter(c.changes, each -> each <= p.valid_from)) AS era
    FROM silver.partition_snapshots p
    JOIN clusters c ON c.cluster_id = p.cluster_id AND c.cluster = p.cluster
    WHERE p.valid_from <= CAST(:until AS TIMESTAMP) AND (p.valid_to IS NULL OR p.valid_to >= CAST(:since AS TIMESTAMP))
      AND p.replicas IS NOT NULL AND size(p.isr) > 0
      AND (size(p.isr) < size(p.replicas) OR p.valid_to IS NULL OR p.valid_to > CAST(:until AS TIMESTAMP))
      AND (CAST(:topic AS STRING) IS NULL OR p.topic = :topic)
  ) p
  LEFT JOIN min_isrs m
    ON m.cluster_id = p.cluster_id AND m.topic = p.topic
      AND (m.maybe_from IS NULL OR m.maybe_from < p.maybe_until)
      AND (m.maybe_until IS NULL OR m.maybe_until > p.maybe_from)
),

kinds AS (
  SELECT DISTINCT cluster_id, era, isr, replicas, min_isr FROM states
),

-- How many of a list are in one rack, at least and at most.
in_one_rack AS (
  SELECT cluster_id, era, brokers,
    greatest(1, max(CASE WHEN rack IS NOT NULL THEN of_rack ELSE 0 END)) AS least,
    greatest(1, max(CASE WHEN rack IS NOT NULL THEN of_rack ELSE 0 END)
      + max(CASE WHEN rack IS NULL THEN of_rack ELSE 0 END)) AS most
  FROM (
    SELECT l.cluster_id, l.era, l.brokers, r.rack, count(*) AS of_rack
    FROM (
      SELECT l.cluster_id, l.era, l.brokers, get(c.changes, l.era - 1) AS began, explode(l.brokers) AS broker_id
      FROM (
        SELECT cluster_id, era, replicas AS brokers FROM kinds
        UNION
        SELECT cluster_id, era, isr FROM kinds
      ) l
      JOIN clusters c ON c.cluster_id = l.cluster_id AND c.has_racks
    ) l
    LEFT JOIN racks r
      ON r.cluster_id = l.cluster_id AND r.broker_id = l.broker_id
        AND (r.valid_from IS NULL OR r.valid_from <= l.began)
        AND (r.valid_to IS NULL OR l.began IS NULL OR r.valid_to > l.began)
    GROUP BY l.cluster_id, l.era, l.brokers, r.rack
  )
  GROUP BY cluster_id, era, brokers
),

-- How many a loss takes of the ISR, and of all replicas.
losses AS (
  SELECT *, 'broker' AS loss, 1 AS least, 1 AS most, 1 AS least_of_all, 1 AS most_of_all FROM kinds
  UNION ALL
  SELECT k.*, 'rack', i.least, i.most, r.least, r.most
  FROM kinds k
  JOIN in_one_rack i ON i.cluster_id = k.cluster_id AND i.era = k.era AND i.brokers = k.isr
  JOIN in_one_rack r ON r.cluster_id = k.cluster_id AND r.era = k.era AND r.brokers = k.replicas
),

effects AS (
  SELECT *, concat(loss, ' ', 'offline') AS risk, size(isr) <= least AS is_so, size(isr) <= most AS may_be_so,
    size(replicas) <= least_of_all AS is_always, size(replicas) <= most_of_all AS may_be_always
  FROM losses
  UNION ALL
  SELECT *, concat(loss, ' ', 'under_min_isr'),
    coalesce(size(isr) >= min_isr AND size(isr) - least < min_isr, false) AND size(isr) > most,
    coalesce(size(isr) >= min_isr AND size(isr) - most < min_isr,
      size(replicas) - least_of_all > size(isr) - most) AND size(isr) > least,
    coalesce(size(replicas) - least_of_all < min_isr, false) AND size(replicas) > most_of_all,
    coalesce(size(replicas) - most_of_all < min_isr, true) AND size(replicas) > least_of_all
  FROM losses
),

risks AS (
  SELECT *, dense_rank() OVER (ORDER BY cluster_id, surely, maybe, always) AS number
  FROM (
    SELECT cluster_id, era, isr, replicas, min_isr,
      array_sort(collect_set(CASE WHEN is_so AND NOT may_be_always THEN risk END)) AS surely,
      array_sort(collect_set(CASE WHEN may_be_so AND NOT is_always THEN risk END)) AS maybe,
      array_sort(collect_set(CASE WHEN is_always THEN risk END)) AS always
    FROM effects
    GROUP BY cluster_id, era, isr, replicas, min_isr
  )
),

numbered AS (
  SELECT DISTINCT number, cluster_id, surely, maybe, always FROM risks
),

-- States are many, and have few numbers.
judged AS (
  SELECT s.topic, s.partition, s.is_short, s.is_last, s.surely_from, s.surely_until, s.maybe_from, s.maybe_until,
    r.number
  FROM states s
  JOIN risks r
    ON r.cluster_id = s.cluster_id AND r.era = s.era AND r.isr = s.isr AND r.replicas = s.replicas
      AND r.min_isr IS NOT DISTINCT FROM s.min_isr
),

times AS (
  SELECT r.cluster_id, r.surely, r.maybe, t.surely_from, t.surely_until, t.maybe_from, t.maybe_until
  FROM (
    SELECT DISTINCT number, surely_from, surely_until, maybe_from, maybe_until
    FROM judged
    WHERE is_short AND maybe_from < maybe_until
  ) t
  JOIN numbered r ON r.number = t.number
),

spans AS (
  SELECT DISTINCT cluster_id, risk, is_sure, began, ended
  FROM (
    SELECT cluster_id, explode(surely) AS risk, true AS is_sure, surely_from AS began, surely_until AS ended
    FROM times
    UNION ALL
    SELECT cluster_id, explode(maybe), false, maybe_from, maybe_until FROM times
  )
  WHERE began < ended
),

-- Of each span the part that no span which began earlier has.
parts AS (
  SELECT cluster_id, risk, is_sure, greatest(began, coalesce(covered_until, began)) AS began, ended
  FROM (
    SELECT *, max(ended) OVER (PARTITION BY cluster_id, risk, is_sure ORDER BY began, ended
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_until
    FROM spans
  )
  WHERE covered_until IS NULL OR covered_until < ended
),

timed AS (
  SELECT p.cluster_id, p.risk,
    sum(CASE WHEN p.is_sure THEN unix_micros(p.ended) - unix_micros(p.began)
      - coalesce(aggregate(c.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
        unix_micros(least(gap.gap_end, p.ended)) - unix_micros(greatest(gap.gap_start, p.began)))), 0)
      ELSE 0 END) AS surely,
    sum(CASE WHEN p.is_sure THEN 0 ELSE unix_micros(p.ended) - unix_micros(p.began) END) AS maybe
  FROM parts p
  JOIN clusters c ON c.cluster_id = p.cluster_id
  GROUP BY p.cluster_id, p.risk
),

topics AS (
  SELECT cluster_id, risk,
    count(DISTINCT CASE WHEN NOT is_always THEN struct(topic, partition) END) AS partitions,
    array_sort(collect_set(CASE WHEN NOT is_always THEN topic END)) AS topics,
    array_sort(collect_set(CASE WHEN is_always THEN topic END)) AS always
  FROM (
    SELECT r.cluster_id, j.topic, j.partition, explode(r.maybe) AS risk, false AS is_always
    FROM (SELECT DISTINCT topic, partition, number FROM judged WHERE is_short AND maybe_from < maybe_until) j
    JOIN numbered r ON r.number = j.number
    UNION ALL
    SELECT r.cluster_id, j.topic, j.partition, explode(r.always), true
    FROM judged j
    JOIN numbered r ON r.number = j.number
    WHERE j.is_last
  )
  GROUP BY cluster_id, risk
)

SELECT c.cluster, e.loss, e.effect, coalesce(t.surely, 0) / 1e6 AS seconds_min, coalesce(t.maybe, 0) / 1e6 AS seconds_max,
  coalesce(aggregate(c.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
    unix_micros(least(gap.gap_end, CAST(:until AS TIMESTAMP)))
      - unix_micros(greatest(gap.gap_start, CAST(:since AS TIMESTAMP))))), 0) / 1e6 AS not_observed_s,
  coalesce(o.partitions, 0) AS partitions, coalesce(o.topics, array()) AS topics, coalesce(o.always, array()) AS always
FROM clusters c
CROSS JOIN (
  SELECT inline(array(struct('broker' AS loss, 'offline' AS effect), struct('broker' AS loss, 'under_min_isr' AS effect),
    struct('rack' AS loss, 'offline' AS effect), struct('rack' AS loss, 'under_min_isr' AS effect)))
) e
LEFT JOIN timed t ON t.cluster_id = c.cluster_id AND t.risk = concat(e.loss, ' ', e.effect)
LEFT JOIN topics o ON o.cluster_id = c.cluster_id AND o.risk = concat(e.loss, ' ', e.effect)
WHERE e.loss = 'broker' OR c.has_racks
ORDER BY seconds_min DESC, seconds_max DESC, c.cluster, e.loss, e.effect
