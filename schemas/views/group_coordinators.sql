-- A group is kept in one partition of __consumer_offsets, whose leader coordinates it. Who led that before the group
-- was there is a row too.
SELECT c.cluster_id, c.cluster, g.group_id, c.log_partition, c.leader AS broker_id, c.began_after AS prev_sent_at,
  c.began_before AS valid_from, c.valid_to
FROM (
  SELECT *, lead(began_before) OVER (PARTITION BY cluster_id, log_partition ORDER BY poll) AS valid_to
  FROM {silver.coordinators}
) c
JOIN (SELECT DISTINCT cluster_id, group_id, log_partition FROM {gold.group_lives}) g
  ON g.cluster_id = c.cluster_id AND g.log_partition = c.log_partition
-- Without a leader it is the end of the topic, which ends the row before alone.
WHERE c.leader IS NOT NULL
