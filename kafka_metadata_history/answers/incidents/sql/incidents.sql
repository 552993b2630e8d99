SELECT id, cluster, kind, class AS incident_class, severity, began_after, began_before, ended_after, ended_before,
  end_reason, cause, cause_of, cause_sureness, alternatives, began_controlled, is_escalated, brokers, group_ids, topics,
  steps, worst_level, offline, under_min_isr, offline_most, under_min_isr_most, out_of_sync_most, reopened, merged_into,
  overlaps
FROM gold.incidents
WHERE (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster) AND {chosen}
