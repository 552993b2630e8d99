SELECT id, concat(topic, '-', partition) AS lane, level AS kind,
  coalesce(nullif(array_position(
    array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), level
  ), 0), 1) AS weight,
  1 AS size, 1 AS counted, began_after, began_before, ended_after, ended_before,
  concat(topic, '-', partition) AS subject,
  concat_ws(', ',
    CASE WHEN size(brokers_out) > 0 THEN concat('out: ', array_join(brokers_out, ', ')) END,
    concat('smallest ISR ', smallest_isr),
    concat('min ISR ', min_isr), concat('ended: ', end_reason)) AS details,
  CAST(NULL AS STRING) AS inferred
FROM gold.isr_episodes
WHERE cluster = :cluster
  AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
  AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
