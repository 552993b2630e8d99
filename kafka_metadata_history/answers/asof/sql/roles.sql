-- What a broker leads and replicates, and the ISRs that it lacks.
SELECT cluster, count_if(leader = CAST(:broker AS INT)) AS leads,
  count_if(get(replicas, 0) = CAST(:broker AS INT)) AS preferred_for, count(*) AS replicates,
  count_if(NOT array_contains(isr, CAST(:broker AS INT))) AS isrs_lacking_it,
  array_sort(collect_list(CASE WHEN NOT array_contains(isr, CAST(:broker AS INT))
    THEN concat(topic, '-', CAST(partition AS STRING)) END)) AS lacking_in
FROM silver.partition_snapshots
WHERE {of_cluster} AND {then} AND array_contains(replicas, CAST(:broker AS INT))
GROUP BY cluster
