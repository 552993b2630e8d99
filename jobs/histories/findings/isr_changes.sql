-- A leader that drops several brokers at once is itself the suspect.
SELECT 'isr_left' AS kind, cluster_id, cluster, broker_out AS broker_id, suspect AS leader, max(rack) AS rack,
  array_sort(collect_set(broker_id)) AS brokers,
  coalesce(min(CASE WHEN NOT startswith(topic, '__') THEN topic END), min(topic)) AS topic, count(*) AS partitions,
  source, cause, began_after, began_before, ended_after, ended_before
FROM (
  SELECT *, if(cause = 'leader_stalled', NULL, broker_id) AS broker_out, if(cause = 'leader_stalled', leader, NULL) AS suspect
  FROM {gold.isr_changes}
  WHERE change IN ('left', 'initially_out') AND (ended_before IS NULL OR ended_before >= :since)
)
GROUP BY cluster_id, cluster, broker_out, suspect, source, cause, began_after, began_before, ended_after, ended_before
