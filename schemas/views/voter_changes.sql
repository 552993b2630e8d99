SELECT cluster_id, cluster, poll, source, prev_voters, voters, began_after, began_before FROM {internal.voter_changes}
UNION ALL
-- As polls show it, unless the controllers' log says so. Its clock may differ from ours by a minute.
SELECT cluster_id, cluster, first_poll, 'polls', prev_voters, voters, prev_sent_at, valid_from
FROM {silver.quorum} q
WHERE voters <> prev_voters AND NOT EXISTS (
  SELECT 1 FROM {internal.voter_changes} c
  WHERE c.cluster_id = q.cluster_id AND c.began_before <= q.valid_from + INTERVAL '1' MINUTE
    AND c.began_before >= q.prev_sent_at - INTERVAL '1' MINUTE
)
