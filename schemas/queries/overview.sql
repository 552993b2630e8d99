-- What happened, in short? Like events are one row.
-- A row has all events of one kind, time, broker and inference, and one of them as an example: of a topic that is not
-- Kafka's own, if there is one. If a topic or a group is given, events of brokers and controllers stay.
-- theme: what happened
WITH events AS (
  SELECT began_after, began_before, cluster, what, broker_id, inferred, before, after,
    coalesce(group_id, concat_ws('-', topic, CAST(partition AS STRING))) AS name,
    coalesce(startswith(topic, '__'), FALSE) AS is_internal
  FROM gold.incident_timeline
  WHERE began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
    AND (
      (topic IS NULL AND group_id IS NULL)
      OR ((CAST(:topic AS STRING) IS NULL OR topic = :topic) AND (CAST(:group AS STRING) IS NULL OR group_id = :group))
    )
),

ordered AS (
  SELECT *, count(*) OVER (PARTITION BY cluster, began_after, began_before, what, broker_id, inferred) AS events,
    row_number() OVER (
      PARTITION BY cluster, began_after, began_before, what, broker_id, inferred ORDER BY is_internal, name, before, after
    ) AS place
  FROM events
)

SELECT began_after, began_before, cluster, what, broker_id, events, nullif(name, '') AS example, before, after, inferred
FROM ordered
WHERE place = 1
ORDER BY began_before, began_after, cluster, what, broker_id, inferred
