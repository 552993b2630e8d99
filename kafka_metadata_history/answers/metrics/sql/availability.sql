-- Seconds of partitions, and those that were bad; a bound is null where that of a day is not known.
SELECT cluster, sum(partition_s_min) AS seconds,
  sum(bad_for_reads_s_min) AS reads_min,
  IF(count(bad_for_reads_s_max) = count(*), sum(bad_for_reads_s_max), NULL) AS reads_max,
  sum(bad_for_writes_s_min) AS writes_min,
  IF(count(bad_for_writes_s_max) = count(*), sum(bad_for_writes_s_max), NULL) AS writes_max
FROM gold.availability
WHERE day >= CAST(CAST(:since AS TIMESTAMP) AS DATE)
GROUP BY cluster
ORDER BY cluster
