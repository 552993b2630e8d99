-- Transactions that are stuck, of clusters whose transactions' log became history, and when the oldest of them began.
SELECT s.cluster, count(t.id) AS stuck, min(t.started_at) AS oldest
FROM (
  SELECT cluster FROM internal.state
  WHERE history = 'transaction_history' AND cluster <> ''
) s
LEFT JOIN gold.transactions t ON t.cluster = s.cluster AND t.is_live AND t.stuck IS NOT NULL
GROUP BY s.cluster
ORDER BY s.cluster
