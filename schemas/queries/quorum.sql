-- Which voters and observers were behind, and which voters were added or removed?
-- Since when, for how long, and how far (enrich: quorum). Observers are brokers, mostly, and clients see their images.
-- offsets_behind, caught_up_at: of the first answer in which it was behind. not_observed_s is how much of the longest
-- time nobody observed: none of it is in the shortest. A stretch that lasts can have lasted up to the window's end.
-- theme: brokers
WITH states AS (
  SELECT *, row_number() OVER (PARTITION BY cluster_id, cluster ORDER BY first_poll) AS n
  FROM silver.quorum
  WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
),

lagging AS (
  SELECT cluster_id, cluster, n, prev_sent_at, valid_from, last_seen_sent_at, valid_to, behind, 'voter' AS role,
    explode(voters_behind) AS replica_id
  FROM states
  UNION ALL
  SELECT cluster_id, cluster, n, prev_sent_at, valid_from, last_seen_sent_at, valid_to, behind, 'observer',
    explode(observers_behind)
  FROM states
),

stretches AS (
  SELECT cluster_id, cluster, role, replica_id, stretch,
    min_by(prev_sent_at, n) AS began_after, min(valid_from) AS began_before,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN last_seen_sent_at END, n) AS ended_after,
    max_by(CASE WHEN valid_to <= CAST(:until AS TIMESTAMP) THEN valid_to END, n) AS ended_before,
    min_by(get(filter(behind, who -> who.replica_id = replica_id AND who.is_voter = (role = 'voter')), 0), n) AS far
  FROM (
    SELECT *, n - row_number() OVER (PARTITION BY cluster_id, cluster, role, replica_id ORDER BY n) AS stretch
    FROM lagging
  )
  GROUP BY cluster_id, cluster, role, replica_id, stretch
),

spans AS (
  SELECT *, began_before AS surely_from, coalesce(ended_after, CAST(:until AS TIMESTAMP)) AS surely_until,
    coalesce(began_after, began_before) AS maybe_from, coalesce(ended_before, CAST(:until AS TIMESTAMP)) AS maybe_until
  FROM stretches
  WHERE ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP)
),

observed AS (
  SELECT s.*,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, surely_until)) - unix_micros(greatest(gap.gap_start, surely_from)))), 0)
      AS surely_unobserved,
    coalesce(aggregate(o.gaps, CAST(0 AS BIGINT), (sum, gap) -> sum + greatest(0,
      unix_micros(least(gap.gap_end, maybe_until)) - unix_micros(greatest(gap.gap_start, maybe_from)))), 0)
      AS maybe_unobserved
  FROM spans s
  LEFT JOIN silver.observed o
    ON o.cluster_id = s.cluster_id AND o.cluster = s.cluster AND o.history = 'polls'
),

voters AS (
  SELECT *, explode(concat(
    transform(array_except(voters, prev_voters), id -> named_struct('voter', id, 'what', 'voter_added')),
    transform(array_except(prev_voters, voters), id -> named_struct('voter', id, 'what', 'voter_removed'))
  )) AS changed
  FROM gold.voter_changes
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
)

SELECT cluster, replica_id, role, 'behind' AS what, began_after, began_before, ended_after, ended_before,
  greatest(0, unix_micros(surely_until) - unix_micros(surely_from) - surely_unobserved) / 1e6 AS seconds_min,
  CASE WHEN began_after IS NOT NULL THEN (unix_micros(maybe_until) - unix_micros(maybe_from)) / 1e6 END AS seconds_max,
  maybe_unobserved / 1e6 AS not_observed_s, far.offsets AS offsets_behind, far.caught_up_at AS caught_up_at,
  'polls' AS source
FROM observed
UNION ALL
SELECT cluster, changed.voter, 'voter', changed.what, began_after, began_before, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, source
FROM voters
ORDER BY began_before, cluster, role, replica_id, what
