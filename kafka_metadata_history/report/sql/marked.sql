SELECT id, text AS lane, CASE WHEN until IS NULL THEN 'change' ELSE 'window' END AS kind,
  0 AS weight, 1 AS size, 1 AS counted, since AS began_after, since AS began_before,
  until AS ended_after, until AS ended_before, coalesce(cluster, 'all clusters') AS subject,
  concat_ws(' ', 'by', made_by) AS details, CAST(NULL AS STRING) AS inferred
FROM gold.marks
WHERE (cluster IS NULL OR cluster = :cluster)
  AND since <= CAST(:until AS TIMESTAMP)
  AND coalesce(until, since) >= CAST(:since AS TIMESTAMP)
