SELECT id, cluster, event, incident_id, kind, severity, what, happened_after, happened_before, known_at, offline,
  under_min_isr, detail
FROM gold.events
WHERE known_at >= CAST(:since AS TIMESTAMP) AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
ORDER BY known_at, happened_before, id
