-- Settings of topics in effect (enrichment configs, or the controllers' log), and all that somebody has set (the
-- controllers' log).
SELECT cluster, resource_type, resource_name, name, max_by(value, place) AS value, max_by(source, place) AS source
FROM (
  SELECT 2 AS place, 'configs' AS source, cluster, 2 AS resource_type, topic AS resource_name,
    inline(array(
      struct('min.insync.replicas' AS name, CAST(min_insync_replicas AS STRING) AS value),
      struct('unclean.leader.election.enable' AS name, CAST(unclean_leader_election_enable AS STRING) AS value)
    ))
  FROM silver.topic_configs
  WHERE {of_cluster} AND {then} AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  UNION ALL
  SELECT 1, 'log', cluster, resource_type, resource_name, name,
    coalesce(value, concat('(not kept, set ', date_format(valid_from, 'yyyy-MM-dd HH:mm:ss'), ')'))
  FROM silver.configs
  WHERE {of_cluster} AND {then}
    AND (CAST(:topic AS STRING) IS NULL OR (resource_type = 2 AND resource_name = :topic))
)
WHERE value IS NOT NULL
GROUP BY cluster, resource_type, resource_name, name
