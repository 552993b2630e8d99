-- What a broker leads and replicates, the ISRs that it lacks, and the rack that it had last.
SELECT p.cluster, count_if(p.leader = CAST(:broker AS INT)) AS leads,
  count_if(get(p.replicas, 0) = CAST(:broker AS INT)) AS preferred_for, count(*) AS replicates,
  count_if(NOT array_contains(p.isr, CAST(:broker AS INT))) AS isrs_lacking_it,
  array_sort(collect_list(CASE WHEN NOT array_contains(p.isr, CAST(:broker AS INT))
    THEN concat(p.topic, '-', CAST(p.partition AS STRING)) END)) AS lacking_in,
  max(r.rack) AS rack
FROM silver.partition_snapshots p
LEFT JOIN (
  SELECT cluster_id, rack
  FROM silver.broker_racks
  WHERE {of_cluster} AND broker_id = CAST(:broker AS INT) AND valid_from <= CAST(:at AS TIMESTAMP)
    AND (valid_to IS NULL OR valid_to > CAST(:at AS TIMESTAMP))
) r ON r.cluster_id = p.cluster_id
WHERE {of_cluster} AND {then} AND array_contains(p.replicas, CAST(:broker AS INT))
GROUP BY p.cluster
