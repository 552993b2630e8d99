SELECT id, kind, broker_id, leader, group_id, rack, brokers, topic, partitions, partitions_now, number, began_after,
  began_before, ended_after, ended_before, source, cause, rule, from_id, sureness, delay_ms_min, delay_ms_max
FROM gold.incident_links
WHERE incident_id = :id AND cluster = :cluster
ORDER BY began_before, began_after, id
