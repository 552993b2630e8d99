-- Why topics were seen to end, before the time.
SELECT cluster, topic, max_by(end_reason, first_poll) AS end_reason
FROM silver.topic_snapshots
WHERE {of_cluster} AND end_reason IS NOT NULL AND valid_to <= CAST(:at AS TIMESTAMP)
GROUP BY cluster, topic
