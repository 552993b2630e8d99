-- Out of these tables, k being the number of a cluster, and n and m the polls from and to which something was so:
-- clusters (groups, weeks, topics, ends), alike (partitions), partition_snapshots, outages, stuck, named (topics).
CREATE MACRO due(n) AS make_timestamptz(epoch_us(TIMESTAMPTZ '{BEGAN}') + CAST(n AS BIGINT) * 1000000 * {SECONDS});
CREATE MACRO seen(n) AS due(n) + INTERVAL 20 MILLISECONDS;
CREATE MACRO poll(n) AS '{STREAM}/' || lpad(CAST(n AS VARCHAR), 12, '0');
CREATE MACRO took(n, m) AS (CAST(m AS BIGINT) - n) * 1000 * {SECONDS};
CREATE MACRO chance(a, b, most) AS CAST(hash(a, b) % most AS INT);

CREATE TABLE coordinators AS
  SELECT l.k, n, n AS m, u.partition AS log_partition, leader, epoch, prev_leader, prev_epoch
  FROM (SELECT l.*, unnest(a.partitions) AS u FROM partition_snapshots l JOIN alike a USING (k, alike)) l
  WHERE u.topic = '__consumer_offsets' AND leader IS DISTINCT FROM prev_leader;
CREATE TABLE consumers AS SELECT k, CAST(g AS INT) AS g FROM clusters, generate_series(0, groups - 1) AS t(g);
-- A rebalance follows each coordinator that was lost, and each week somebody deploys.
CREATE TABLE rebalanced AS
  SELECT *, md5(concat_ws('\n', k, g, n)) AS id, row_number() OVER w AS generation,
    lag(n) OVER w AS prev_n
  FROM (
    SELECT c.k, g, n, n AS m, 0 AS joined, epoch FROM coordinators c JOIN consumers s ON s.k = c.k AND g % 50 = log_partition
    WHERE n > 0 AND epoch % 2 = 1
    UNION ALL
    SELECT k, g, n, n, 1, 0 FROM (
      SELECT k, g, week * {WEEK} + 20 + chance(k * 1000 + g, week, {WEEK} - 50) AS n
      FROM consumers JOIN clusters USING (k), generate_series(0, weeks - 1) AS t(week)
    )
    UNION ALL
    SELECT k, g, n, CASE WHEN row_number() OVER (PARTITION BY k ORDER BY n DESC) > 1 THEN m END, 0, 0 FROM stuck
  )
  WINDOW w AS (PARTITION BY k, g ORDER BY n)
  QUALIFY row_number() OVER (PARTITION BY k, g, n ORDER BY joined) = 1;
CREATE TABLE listed AS
  SELECT k, broker_id, coalesce(lag(m) OVER w, 0) AS n, n AS m FROM outages WINDOW w AS (PARTITION BY k, broker_id ORDER BY n)
  UNION ALL SELECT k, broker_id, max(m), NULL FROM outages GROUP BY ALL;
CREATE TABLE registered AS
  SELECT *, lag(epoch) OVER w AS prev_epoch, lag(is_fenced) OVER w AS prev_is_fenced FROM (
    SELECT k, broker_id, n, m, n AS epoch, false AS is_fenced FROM listed
    UNION ALL
    SELECT k, broker_id, n, m, n, true FROM outages
  ) WINDOW w AS (PARTITION BY k, broker_id ORDER BY n);
-- Some topics come and go, and some settings change.
CREATE TABLE topics AS
  SELECT k, topic, topic_id, 0 AS n, NULL::INT AS m, partitions FROM named
  UNION ALL
  SELECT k, printf('passing-%05d', week), left(md5(concat(k, week)), 22), week * {WEEK} + {DAY}, week * {WEEK} + 2 * {DAY}, 10
  FROM clusters, generate_series(0, weeks - 1) AS t(week);
CREATE TABLE settings AS
  WITH changed AS (
    SELECT k, topic, 0 AS n, min_isr FROM named
    UNION ALL
    SELECT k, printf('topic-%05d', 50 + week), week * {WEEK} + {DAY}, 2
    FROM clusters, generate_series(0, least(weeks, topics - 50) - 1) AS t(week)
  )
  SELECT *, lead(n) OVER w AS m, lag(min_isr) OVER w AS prev_min_isr
  FROM changed WINDOW w AS (PARTITION BY k, topic ORDER BY n);
CREATE TABLE gaps AS
  SELECT k, n, n + 20 AS m FROM (
    SELECT k, month * 30 * {DAY} + 3 * {DAY} + 20 * {DAY} // 24 + chance(k, month, 40) AS n
    FROM clusters, generate_series(0, weeks * 7 // 30 - 1) AS t(month)
  );
CREATE TABLE described AS
  SELECT *, CASE WHEN n = 0 THEN NULL WHEN state = 'Stable' THEN 'PreparingRebalance' ELSE 'Stable' END AS prev_state
  FROM (
    SELECT k, g, 0 AS n, min(n) AS m, 'Stable' AS state FROM rebalanced GROUP BY k, g
    UNION ALL
    SELECT k, g, n, CASE WHEN m = n THEN n + 1 ELSE m END, 'PreparingRebalance' FROM rebalanced
    UNION ALL
    SELECT k, g, greatest(m, n + 1), lead(n) OVER (PARTITION BY k, g ORDER BY n), 'Stable'
    FROM rebalanced WHERE m IS NOT NULL
  ) WHERE m IS NULL OR m > n;
CREATE VIEW lags AS
  SELECT k, g, n, CASE WHEN n + {LAG_EACH} < ends THEN n + {LAG_EACH} END AS m,
    greatest(0, chance(k * 1000 + g, n, 1000) - 300) AS lag
  FROM consumers JOIN clusters USING (k), generate_series(ends - {LAG_DAYS} * {DAY}, ends - 1, {LAG_EACH}) AS t(n);
CREATE VIEW polls AS
  SELECT k, CAST(n AS INT) AS n, CAST(n AS INT) AS m, 'poll' AS record, NULL AS kind
  FROM clusters, generate_series(ends - {BRONZE_DAYS} * {DAY}, ends - 1) AS t(n)
  UNION ALL
  SELECT k, n, n, 'answer', kind
  FROM clusters, generate_series(ends - {BRONZE_DAYS} * {DAY}, ends - 1, {LAG_EACH}) AS t(n),
    (VALUES ('configs'), ('reassignments'), ('quorum'), ('elr'), ('fenced'), ('groups'), ('offsets')) AS a(kind);
CREATE TABLE histories AS
  SELECT k, ends AS n, ends AS m, history FROM clusters, (VALUES ('silver'), ('isr_shrink'), ('leader_churn'),
    ('rebalance_history'), ('rebalance_cost'), ('group_lag'), ('cluster_log')) AS h(history);
CREATE TABLE balance AS
  WITH moved AS (
    SELECT k, n, leader, prev_leader, replicas[1] AS preferred, len(partitions) AS count
    FROM partition_snapshots JOIN alike USING (k, alike)
    WHERE leader IS DISTINCT FROM prev_leader
  ),
  changes AS (
    SELECT k, n, leader AS broker_id, count AS leads, 0 AS elsewhere FROM moved WHERE leader <> -1
    UNION ALL
    SELECT k, n, prev_leader, -count, 0 FROM moved WHERE prev_leader <> -1
    UNION ALL
    SELECT k, n, preferred, 0,
      count * (CAST(leader <> preferred AS INT) - CAST(coalesce(prev_leader <> preferred, false) AS INT))
    FROM moved
  )
  SELECT k, broker_id, n, preferred_for, lead(n) OVER w AS m, sum(leads) OVER w AS leads,
    sum(elsewhere) OVER w AS led_elsewhere
  FROM (SELECT k, broker_id, n, sum(leads) AS leads, sum(elsewhere) AS elsewhere FROM changes GROUP BY ALL)
  JOIN (SELECT k, preferred AS broker_id, sum(count) AS preferred_for FROM moved WHERE n = 0 GROUP BY ALL)
    USING (k, broker_id)
  WHERE leads <> 0 OR elsewhere <> 0
  WINDOW w AS (PARTITION BY k, broker_id ORDER BY n);
