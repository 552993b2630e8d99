-- Which groups wait for an open transaction to end?
-- At the window's end, by partition, most records first: those that a consumer with read_committed cannot read, the
-- transactions that may hold them up, and the command that ends each. Brokers do not know whether a group reads so.
-- No transaction: it is not open for long yet, or nobody asked. By enrichments offsets and transactions.
-- theme: groups
SELECT cluster, group_id, topic, partition, records, last_stable, opened_by, is_hanging, state, producer_id,
  producer_epoch, started_at, coordinator, valid_from AS told_at, command
FROM gold.held_up
WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:until AS TIMESTAMP))
  AND (open_from IS NULL OR open_from <= CAST(:until AS TIMESTAMP))
  AND (open_to IS NULL OR open_to > CAST(:until AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:group AS STRING) IS NULL OR group_id = :group)
  AND (CAST(:topic AS STRING) IS NULL OR topic = :topic)
ORDER BY records DESC, cluster, group_id, topic, partition, opened_by
