-- Events of incidents, all of them and those that were known lately.
SELECT cluster, event, kind, severity, count(*) AS events,
  count_if(known_at > CAST(:since AS TIMESTAMP)) AS recent
FROM gold.events
WHERE event IN ('opened', 'ended')
GROUP BY cluster, event, kind, severity
ORDER BY cluster, event, kind, severity
