-- What did people mark, changes and maintenance?
-- By `kafka-metadata-history mark`, the newest first. A mark without a cluster is of all clusters; one without until is
-- of a moment.
-- theme: maintenance
SELECT cluster, since, until, text, made_at, made_by
FROM gold.marks
WHERE since <= CAST(:until AS TIMESTAMP) AND coalesce(until, since) >= CAST(:since AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster IS NULL OR cluster = :cluster)
ORDER BY since DESC, id DESC
