SELECT cluster, since, until
FROM gold.marks
WHERE until >= CAST(:since AS TIMESTAMP)
