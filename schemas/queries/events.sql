-- What happened to incidents, as it was known?
-- In the order of known_at, when a round found it: the window is about that. happened_after and happened_before say
-- when it was so. event is baseline (what lasted when incidents were first made), opened, worse, eased, ended,
-- reopened, merged, revised or withdrawn. incident_id is null of findings beside incidents. offline and under_min_isr:
-- partitions of it, then.
-- theme: what happened
SELECT known_at, cluster, event, severity, kind, what, incident_id, happened_after, happened_before, offline,
  under_min_isr, detail, id
FROM gold.events
WHERE known_at BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:incident AS STRING) IS NULL OR incident_id = :incident)
ORDER BY known_at, happened_before, cluster, id
