-- The longest gaps.
SELECT gap_start, gap_end, reason, error_kinds, count(*) OVER () AS gaps
FROM silver.poll_gaps g
WHERE cluster = :cluster
  AND gap_start <= CAST(:until AS TIMESTAMP) AND gap_end >= CAST(:since AS TIMESTAMP)
  -- Where the controllers' log told meanwhile, more than nothing is known.
  AND NOT EXISTS (
    SELECT 1 FROM silver.history_sources h
    WHERE h.cluster_id = g.cluster_id AND h.source = 'log' AND h.valid_from <= g.gap_start
      AND (h.valid_to IS NULL OR h.last_seen_at >= g.gap_end))
ORDER BY unix_micros(gap_end) - unix_micros(gap_start) DESC, gap_start
LIMIT :most
