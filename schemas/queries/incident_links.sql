-- What belongs to an incident, by which rule?
-- Findings in order of time. --incident names one by its id: then the findings of all times are shown, else those that
-- began in the window. rule ties a finding to another one of the incident, from_id, which it follows by delay. The first
-- cause has no rule. sureness is exact, bounded or inferred. docs/incidents.md has the kinds and the rules.
-- theme: what happened
SELECT cluster, began_after, began_before, kind, broker_id, coalesce(group_id, topic) AS name, partitions, rule, sureness,
  delay_ms_min, delay_ms_max, number, cause, ended_after, ended_before, leader, rack, source, incident_id, id, from_id
FROM gold.incident_links
WHERE (CAST(:incident AS STRING) IS NOT NULL
    OR began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP))
  AND (CAST(:incident AS STRING) IS NULL OR incident_id = :incident)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers, CAST(:broker AS INT)))
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
ORDER BY began_before, began_after, cluster, id
