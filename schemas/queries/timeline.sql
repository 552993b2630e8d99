-- What happened, in order?
-- Events of brokers, log directories, controllers, ISRs, leaders, reassignments, topics, configurations, coordinators and
-- groups. If a topic or a group is given, events of brokers and controllers stay.
-- theme: what happened
SELECT began_after, began_before, cluster, what, topic, partition, group_id, broker_id, before, after, inferred
FROM gold.incident_timeline
WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
  AND (
    (topic IS NULL AND group_id IS NULL)
    OR ((CAST(:topic AS STRING) IS NULL OR topic = :topic) AND (CAST(:group AS STRING) IS NULL OR group_id = :group))
  )
ORDER BY began_before, cluster, what, topic, partition, group_id, broker_id, before, after
