SELECT kind, cluster_id, cluster, nullif(prev_leader, -1) AS broker_id, brokers,
  coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic, count(*) AS partitions,
  source, cause, began_after, began_before, began_after AS ended_after, began_before AS ended_before
FROM (
  SELECT *, 'leader_changed' AS kind, array(prev_leader) AS brokers, reason AS cause
  FROM {gold.leader_changes}
  WHERE prev_leader >= 0 AND leader <> prev_leader AND reason IN ('failover', 'offline', 'reassignment')
    AND began_before >= :since
  UNION ALL
  SELECT *, 'unclean_election', prev_isr, CAST(NULL AS STRING)
  FROM {gold.leader_changes}
  WHERE unclean = 'proven' AND began_before >= :since
)
GROUP BY kind, cluster_id, cluster, nullif(prev_leader, -1), brokers, source, cause, began_after, began_before
