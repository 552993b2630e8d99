-- Questions beside polls that were answered lately, and when last.
SELECT kind, max(answered_at) AS answered_at FROM bronze.metadata_polls
WHERE record = 'answer' AND cluster = :cluster AND outcome LIKE 'ok%' AND answered_at <= CAST(:at AS TIMESTAMP)
  AND scheduled_at > CAST(:at AS TIMESTAMP) - INTERVAL 1 DAY
  AND day >= CAST(CAST(:at AS TIMESTAMP) - INTERVAL 1 DAY AS DATE)
GROUP BY kind
