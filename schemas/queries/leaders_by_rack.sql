-- How were leaders spread over racks, before and after?
-- At both ends of the window: the brokers of a rack that led or should lead, how many partitions they led, and of how
-- many they were the preferred leaders. percent_after is the rack's share of all that were led. Each broker counts in
-- the rack that it had last; rack is null where a broker had none, or nobody was told of it yet.
-- theme: maintenance
WITH balance AS (
  SELECT b.cluster, b.leads, b.preferred_for, r.rack AS rack_before, a.rack AS rack_after,
    b.valid_from <= CAST(:since AS TIMESTAMP) AND (b.valid_to IS NULL OR b.valid_to > CAST(:since AS TIMESTAMP))
      AS is_before,
    b.valid_from <= CAST(:until AS TIMESTAMP) AND (b.valid_to IS NULL OR b.valid_to > CAST(:until AS TIMESTAMP))
      AS is_after
  FROM gold.leader_balance b
  LEFT JOIN silver.broker_racks r
    ON r.cluster_id = b.cluster_id AND r.broker_id = b.broker_id AND r.valid_from <= CAST(:since AS TIMESTAMP)
      AND (r.valid_to IS NULL OR r.valid_to > CAST(:since AS TIMESTAMP))
  LEFT JOIN silver.broker_racks a
    ON a.cluster_id = b.cluster_id AND a.broker_id = b.broker_id AND a.valid_from <= CAST(:until AS TIMESTAMP)
      AND (a.valid_to IS NULL OR a.valid_to > CAST(:until AS TIMESTAMP))
  WHERE b.leads + b.preferred_for > 0
    AND (CAST(:cluster AS STRING) IS NULL OR b.cluster = :cluster)
),

in_racks AS (
  SELECT cluster, rack,
    count_if(is_before) AS brokers_before,
    count_if(NOT is_before) AS brokers_after,
    coalesce(sum(leads) FILTER (WHERE is_before), 0) AS leads_before,
    coalesce(sum(leads) FILTER (WHERE NOT is_before), 0) AS leads_after,
    coalesce(sum(preferred_for) FILTER (WHERE is_before), 0) AS preferred_for_before,
    coalesce(sum(preferred_for) FILTER (WHERE NOT is_before), 0) AS preferred_for_after
  FROM (
    SELECT cluster, rack_before AS rack, leads, preferred_for, true AS is_before FROM balance WHERE is_before
    UNION ALL
    SELECT cluster, rack_after, leads, preferred_for, false FROM balance WHERE is_after
  )
  GROUP BY cluster, rack
)

SELECT cluster, rack, brokers_before, brokers_after, leads_before, leads_after, preferred_for_before,
  preferred_for_after,
  100 * leads_after / nullif(sum(leads_after) OVER (PARTITION BY cluster), 0) AS percent_after
FROM in_racks
ORDER BY cluster, rack
