WITH churned AS (
  SELECT topic, partition,
    row_number() OVER (ORDER BY sum(changes_min) DESC, min(began_before), topic, partition) AS place
  FROM gold.leader_changes
  WHERE cluster = :cluster AND reason <> 'isr_shrink' AND coalesce(changes_max, 1) > 0
    AND began_before BETWEEN CAST(:since AS TIMESTAMP) AND CAST(:until AS TIMESTAMP)
    AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
    AND (CAST(:broker AS INT) IS NULL OR :broker IN (leader, prev_leader))
  GROUP BY topic, partition
),

states AS (
  SELECT snapshots.*, place,
    coalesce(leader = lag(leader) OVER in_order AND leader_epoch = lag(leader_epoch) OVER in_order, false) AS is_same
  FROM silver.partition_snapshots AS snapshots JOIN churned USING (topic, partition)
  WHERE cluster = :cluster AND place <= 10
    AND valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:since AS TIMESTAMP))
  WINDOW in_order AS (PARTITION BY topic, partition, topic_id ORDER BY first_poll)
),

-- States of one leader and epoch, one after the other, are one turn: nobody else led in between.
turns AS (
  SELECT *, count_if(NOT is_same) OVER (PARTITION BY topic, partition, topic_id ORDER BY first_poll) AS turn
  FROM states
)

SELECT concat(topic, '-', partition) AS partition, IF(leader = -1, 'none', CAST(leader AS STRING)) AS leader,
  min_by(prev_sent_at, first_poll) AS began_after, min(valid_from) AS began_before,
  max_by(last_seen_sent_at, first_poll) AS ended_after, max_by(valid_to, first_poll) AS ended_before
FROM turns
GROUP BY place, topic, partition, topic_id, turn, leader
ORDER BY place, began_before
