-- Questions beside polls that were answered lately.
SELECT DISTINCT kind FROM bronze.metadata_polls
WHERE record = 'answer' AND {of_cluster} AND outcome LIKE 'ok%' AND answered_at <= CAST(:at AS TIMESTAMP)
  AND scheduled_at > CAST(:at AS TIMESTAMP) - INTERVAL 1 DAY
  AND day >= CAST(CAST(:at AS TIMESTAMP) - INTERVAL 1 DAY AS DATE)
