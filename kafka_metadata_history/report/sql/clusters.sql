-- Every cluster, the one to which most happened first.
SELECT r.cluster, r.silver_from, r.gold_from, r.until, coalesce(h.events, 0) AS events
FROM silver.reach r
LEFT JOIN (
  SELECT cluster, count(*) AS events FROM gold.incident_timeline
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  GROUP BY cluster
) h ON h.cluster = r.cluster
ORDER BY events DESC, r.cluster
