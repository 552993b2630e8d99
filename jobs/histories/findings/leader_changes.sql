-- An election in the place of nobody is about who led last: where there is an ELR, no ISR is left.
WITH changes AS (
  SELECT *, lag(prev_leader) OVER (
    PARTITION BY cluster_id, cluster, topic, partition ORDER BY began_before, poll
  ) AS led_last
  FROM {gold.leader_changes}
  WHERE began_before >= :since
)
SELECT kind, cluster_id, cluster, nullif(prev_leader, -1) AS broker_id, brokers,
  coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic, count(*) AS partitions,
  source, cause, began_after, began_before, began_after AS ended_after, began_before AS ended_before
FROM (
  SELECT *, 'leader_changed' AS kind, array(prev_leader) AS brokers, reason AS cause
  FROM changes
  WHERE prev_leader >= 0 AND leader <> prev_leader AND reason IN ('failover', 'offline', 'reassignment')
  UNION ALL
  SELECT *, 'unclean_election',
    filter(array_union(coalesce(prev_isr, CAST(array() AS ARRAY<INT>)), array(if(prev_leader = -1, led_last, NULL))), each -> each >= 0),
    CAST(NULL AS STRING)
  FROM changes
  WHERE unclean = 'proven'
)
GROUP BY kind, cluster_id, cluster, nullif(prev_leader, -1), brokers, source, cause, began_after, began_before
