-- Up to when groups were asked for their offsets.
SELECT cluster, max(done_at) AS until FROM internal.state WHERE history = 'group_lag' GROUP BY cluster ORDER BY cluster
