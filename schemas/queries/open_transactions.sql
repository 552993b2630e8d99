-- Which transactions were open for long, and which hang?
-- In the window, those that began last first; one row for each state. Those that hang are open on a partition, and no
-- coordinator has them: nobody but an administrator ends them. It was so from told_from to told_to, at least.
-- By the enrichment transactions. Of one that hangs leaders tell after two rounds through all partitions, 5,000 in each
-- answer. If an answer leaves one out that was told before, its row does not end.
-- theme: groups
SELECT cluster, opened_by, is_hanging, state, producer_id, producer_epoch, timeout_ms, started_at, coordinator,
  partition_count, partitions, start_offset, last_written_at, prev_sent_at AS told_after, valid_from AS told_from,
  valid_to AS told_to
FROM silver.open_transactions
WHERE valid_from <= CAST(:until AS TIMESTAMP) AND (valid_to IS NULL OR valid_to > CAST(:since AS TIMESTAMP))
  AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  AND (CAST(:broker AS INT) IS NULL OR coordinator = :broker)
  AND (CAST(:topic AS STRING) IS NULL OR exists(partitions, place -> place.topic = :topic))
ORDER BY valid_from DESC, cluster, opened_by
