-- The largest of brokers, of levels of topics, and of leader changes by topic.
WITH brokers AS (
  SELECT concat('broker ', broker_id, ' was missing from the ISRs of ', partitions,
      IF(partitions = 1, ' partition', ' partitions'), '; worst: ',
      replace(replace(worst_level, '_', ' '), 'isr', 'ISR')) AS thing,
    began_after, began_before, ended_after, ended_before, array_join(causes, ', ') AS inferred,
    row_number() OVER (ORDER BY array_position(
      array('under_replicated', 'at_min_isr', 'under_min_isr', 'offline'), worst_level
    ) DESC, partitions DESC, began_before, broker_id) AS rank
  FROM gold.broker_incidents
  WHERE cluster = :cluster
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:broker AS INT) IS NULL OR broker_id = :broker)
),

topics AS (
  SELECT topic, level, count(DISTINCT partition) AS partitions, min(began_after) AS began_after,
    min(began_before) AS began_before, max(ended_after) AS ended_after,
    CASE WHEN count(ended_before) = count(*) THEN max(ended_before) END AS ended_before
  FROM gold.isr_episodes
  WHERE cluster = :cluster AND level IN ('offline', 'under_min_isr')
    AND began_before <= CAST(:until AS TIMESTAMP)
    AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR array_contains(brokers_out, CAST(:broker AS INT)))
  GROUP BY topic, level
),

levels AS (
  SELECT concat('topic ', topic, ': ', partitions,
      IF(partitions = 1, ' partition ', ' partitions '),
      IF(level = 'offline', 'without a leader', 'under min ISR')) AS thing,
    began_after, began_before, ended_after, ended_before, CAST(NULL AS STRING) AS inferred,
    row_number()
      OVER (ORDER BY level = 'offline' DESC, partitions DESC, began_before, topic) AS rank
  FROM topics
),

leaders AS (
  SELECT concat('topic ', topic, ': ', count(*),
      IF(count(*) = 1, ' leader change', ' leader changes'),
      CASE WHEN count_if(unclean <> 'no') > 0
        THEN concat(', ', count_if(unclean <> 'no'), ' unclean') ELSE '' END) AS thing,
    min(began_after) AS began_after, min(began_before) AS began_before,
    max(began_after) AS ended_after, max(began_before) AS ended_before,
    array_join(array_sort(collect_set(reason)), ', ') AS inferred,
    row_number() OVER (ORDER BY count_if(unclean <> 'no') DESC, count(*) DESC, topic) AS rank
  FROM gold.leader_changes
  WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
  GROUP BY topic
)

SELECT thing, began_after, began_before, ended_after, ended_before, inferred, rank
FROM brokers WHERE rank <= 10
UNION ALL
SELECT thing, began_after, began_before, ended_after, ended_before, inferred, rank
FROM levels WHERE rank <= 10
UNION ALL
SELECT thing, began_after, began_before, ended_after, ended_before, inferred, rank
FROM leaders WHERE rank <= 10
