SELECT kind, cluster_id, cluster, group_id, get(not_well, 0).topic AS topic, CAST(partitions_not_well AS BIGINT) AS partitions,
  lag_max AS number, burrow_status AS cause, valid_from AS began_after, valid_from AS began_before,
  coalesce(last_seen_at, valid_to) AS ended_after, valid_to AS ended_before
FROM {gold.group_lag}
LATERAL VIEW explode(if(
  exists(not_well, each -> each.burrow_status IN ('STOP', 'STALL')), array('lag', 'group_stopped'), array('lag')
)) AS kind
WHERE burrow_status IN ('WARNING', 'ERROR') AND (valid_to IS NULL OR valid_to >= :since)
