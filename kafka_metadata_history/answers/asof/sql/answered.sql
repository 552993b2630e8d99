-- Questions beside polls that were answered lately, and when last.
SELECT cluster, kind, max(answered_at) AS answered_at
FROM bronze.metadata_polls
WHERE {of_cluster} AND record = 'answer' AND outcome LIKE 'ok%' AND answered_at <= CAST(:until AS TIMESTAMP)
  AND scheduled_at > CAST(:until AS TIMESTAMP) - INTERVAL 1 DAY
  AND day >= CAST(CAST(:until AS TIMESTAMP) - INTERVAL 1 DAY AS DATE)
GROUP BY cluster, kind
