-- Levels, quorum, who tells, and the gap between polls that the time lies in.
SELECT s.cluster, s.metadata_version_level, s.metadata_version_highest, s.elr_version_level, s.not_meaningful,
  q.controller_id, q.voters, coalesce(h.source = 'log', false) AS by_log, g.gap_start, g.gap_end
FROM (SELECT * FROM silver.cluster_snapshots WHERE {of_cluster} AND {then}) s
LEFT JOIN (SELECT * FROM silver.quorum WHERE {of_cluster} AND {then}) q ON q.cluster_id = s.cluster_id
LEFT JOIN (SELECT * FROM silver.history_sources WHERE {of_cluster} AND {then}) h ON h.cluster_id = s.cluster_id
LEFT JOIN (
  SELECT * FROM silver.poll_gaps
  WHERE {of_cluster} AND gap_start < CAST(:at AS TIMESTAMP) AND gap_end > CAST(:at AS TIMESTAMP)
) g ON g.cluster_id = s.cluster_id
ORDER BY s.cluster
