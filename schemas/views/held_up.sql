-- A transaction may be told later than the lag that it causes: it counts if it was open at any time of the lag's row.
SELECT l.cluster_id, l.cluster, l.group_id, l.first_poll, l.valid_from, l.valid_to, l.held.topic AS topic,
  l.held.partition AS partition, l.held.last_stable AS last_stable, l.held.records AS records, t.opened_by,
  t.is_hanging, t.state, t.producer_id, t.producer_epoch, t.timeout_ms, t.started_at, t.coordinator, t.start_offset,
  t.open_from, t.open_to,
  CASE
    WHEN t.open_to IS NOT NULL THEN NULL
    WHEN t.opened_by IS NULL THEN
      concat('kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --topic ', l.held.topic, ' --partition ',
        CAST(l.held.partition AS STRING))
    WHEN t.is_hanging THEN
      concat('kafka-transactions.sh --bootstrap-server HOST:PORT abort --topic ', l.held.topic, ' --partition ',
        CAST(l.held.partition AS STRING), ' --start-offset ', CAST(t.start_offset AS STRING))
    -- It says nothing of one that is decided: that ends once its partitions have leaders again.
    WHEN t.state = 'Ongoing' THEN termination(t.opened_by)
  END AS command
FROM (
  SELECT cluster_id, cluster, group_id, first_poll, valid_from, valid_to, explode(held_up) AS held
  FROM {gold.group_lag}
) l
LEFT JOIN (
  SELECT cluster_id, cluster, opened_by, is_hanging, state, producer_id, producer_epoch, timeout_ms, started_at,
    coordinator, start_offset, valid_from AS open_from, valid_to AS open_to, explode(partitions) AS place
  FROM {silver.open_transactions}
) t
  ON t.cluster_id = l.cluster_id AND t.cluster = l.cluster AND t.place.topic = l.held.topic
    AND t.place.partition = l.held.partition
    AND (l.valid_to IS NULL OR t.open_from <= l.valid_to)
    AND (t.open_to IS NULL OR t.open_to > l.valid_from)
