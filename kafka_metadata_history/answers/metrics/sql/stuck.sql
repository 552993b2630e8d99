-- Groups whose rebalance does not end, of incidents that last.
SELECT l.cluster, count(DISTINCT l.group_id) AS groups
FROM gold.incident_links l
JOIN gold.incidents i ON i.id = l.incident_id AND i.cluster = l.cluster
WHERE l.is_live AND l.kind = 'group_stuck' AND l.ended_before IS NULL AND i.is_live AND i.end_reason IS NULL
GROUP BY l.cluster
ORDER BY l.cluster
