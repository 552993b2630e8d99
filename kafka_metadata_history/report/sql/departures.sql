-- The departures from ISRs that an incident of a broker is made of.
WITH departed AS (
  SELECT i.id AS incident, c.id, c.change, c.topic, c.partition,
    c.began_after, c.began_before, c.ended_after, c.ended_before, c.prev_isr, c.isr, c.cause,
    row_number() OVER (PARTITION BY i.id ORDER BY c.began_before, c.topic, c.partition) AS age
  FROM gold.broker_incidents i
  JOIN gold.isr_changes c
    ON c.cluster_id = i.cluster_id AND c.broker_id = i.broker_id
      AND c.change IN ('left', 'initially_out') AND c.began_before >= i.began_before
      AND (i.ended_before IS NULL OR c.began_before <= i.ended_before)
  WHERE i.cluster = :cluster
    AND i.began_before <= CAST(:until AS TIMESTAMP)
    AND (i.ended_before IS NULL OR i.ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR i.broker_id = :broker)
)

SELECT incident, change AS kind, concat(topic, '-', partition) AS subject,
  began_after, began_before, ended_after, ended_before,
  concat('ISR {', array_join(prev_isr, ','), '} to {', array_join(isr, ','), '}') AS details,
  cause AS inferred
FROM departed
WHERE age <= :rows_of_mark
ORDER BY age, incident
LIMIT :most_rows
