-- Who writes transactions, how many fail, and which producer restarts often?
-- By pattern of the transactional id, which is the id without its numbers; null: all beyond the 200 with most records.
-- Those with most aborts by the coordinator first, then those whose producers began again most often (epochs_raised).
-- By whole hours (UTC) of the log of transaction coordinators.
-- theme: transactions
SELECT * FROM (
  SELECT cluster, pattern, max(ids_min) AS ids_min, sum(ids_max) AS ids_max, sum(begun) AS begun,
    sum(committed) AS committed, sum(aborted_by_client) AS aborted_by_client,
    sum(aborted_by_coordinator) AS aborted_by_coordinator, sum(aborted_by_unknown) AS aborted_by_unknown,
    sum(timed_out) AS timed_out, sum(epochs_raised) AS epochs_raised, sum(producer_ids_given) AS producer_ids_given,
    sum(removed) AS removed, max(longest_ms) AS longest_ms,
    CASE WHEN sum(completed) > 0 THEN CAST(floor(sum(total_ms) / sum(completed)) AS BIGINT) END AS mean_ms,
    max(longest_completing_ms) AS longest_completing_ms, max(most_partitions) AS most_partitions,
    min(hour) AS first_hour, max(hour) AS last_hour
  FROM gold.transactional_ids
  WHERE hour > CAST(:since AS TIMESTAMP) - INTERVAL '1' HOUR AND hour <= CAST(:until AS TIMESTAMP)
    AND (CAST(:cluster AS STRING) IS NULL OR cluster = :cluster)
  GROUP BY cluster, pattern
)
ORDER BY aborted_by_coordinator + timed_out DESC, epochs_raised DESC, begun DESC, cluster, pattern
