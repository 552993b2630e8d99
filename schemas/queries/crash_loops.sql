-- Which clients joined, left or restarted repeatedly?
-- And from which hosts. in_crash_loop: by the limits of thresholds, also where a part of the loop lies outside of the
-- window.
-- theme: groups
WITH came_and_went AS (
  SELECT cluster_id, cluster, group_id, client_id, client_host, instance_id, member_id, began_before, change
  FROM gold.rebalance_members
  WHERE change IN ('joined', 'left', 'restarted')
  UNION ALL
  SELECT cluster_id, cluster, group_id, client_id, client_host, instance_id, member_id, began_before, 'restarted'
  FROM gold.group_events
  WHERE event = 'static_restart'
),

clients AS (
  SELECT cluster_id, cluster, group_id, client_id, client_host,
    count_if(change = 'joined') AS joined,
    count_if(change = 'left') AS left,
    count_if(change = 'restarted') AS restarted,
    count(DISTINCT member_id) AS member_ids,
    array_sort(collect_set(instance_id)) AS instance_ids,
    min(began_before) AS first_before,
    max(began_before) AS last_before
  FROM came_and_went
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  GROUP BY cluster_id, cluster, group_id, client_id, client_host
),

loops AS (
  SELECT DISTINCT cluster_id, group_id, client_id, client_host, true AS is_loop
  FROM gold.rebalance_storms
  WHERE kind = 'crash_loop' AND began_before <= CAST(:until AS TIMESTAMP) AND last_before >= CAST(:since AS TIMESTAMP)
)

SELECT c.cluster, c.group_id, c.client_id, c.client_host, joined, left, restarted, member_ids, instance_ids,
  first_before, last_before, coalesce(is_loop, false) AS in_crash_loop
FROM clients c LEFT JOIN loops l
  ON l.cluster_id = c.cluster_id AND l.group_id = c.group_id AND l.client_id <=> c.client_id AND l.client_host <=> c.client_host
WHERE joined + restarted > 1 OR left > 1 OR is_loop
ORDER BY in_crash_loop DESC, joined + left + restarted DESC, cluster, group_id, client_id, client_host
