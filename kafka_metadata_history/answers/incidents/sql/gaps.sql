-- When nobody looked; what the controllers' log told meanwhile is no gap.
SELECT gap_start, gap_end
FROM silver.poll_gaps g
WHERE g.cluster = :cluster AND g.gap_start < CAST(:until AS TIMESTAMP) AND g.gap_end > CAST(:since AS TIMESTAMP)
  AND NOT EXISTS (
    SELECT 1 FROM silver.history_sources h
    WHERE h.cluster_id = g.cluster_id AND h.source = 'log' AND h.valid_from <= g.gap_start
      AND (h.valid_to IS NULL OR h.last_seen_at >= g.gap_end)
  )
ORDER BY gap_start
