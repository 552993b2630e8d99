-- What `happened`, in lanes and in marks: the rows behind each mark, with what the mark sums up.
WITH happened AS ({happened}),

ranked AS (
  SELECT lane, row_number() OVER (ORDER BY max(weight) DESC, sum(counted) DESC, lane) AS lane_number,
    count(*) OVER () AS lanes_all, sum(sum(counted)) OVER () AS counted_all,
    sum(count(*)) OVER () AS rows_all
  FROM happened
  GROUP BY lane
),

numbered AS (
  SELECT h.*, r.lane_number, r.lanes_all, r.counted_all, r.rows_all,
    count(*) OVER () > :most_marks AS is_many,
    row_number() OVER (ORDER BY h.began_before, h.lane, h.kind, h.id) AS number
  FROM happened h JOIN ranked r ON r.lane = h.lane
  WHERE r.lane_number <= :most_lanes
),

marked AS (
  SELECT *, dense_rank() OVER (ORDER BY lane_number, kind,
      CASE WHEN is_many THEN unix_micros(greatest(began_before, CAST(:since AS TIMESTAMP))) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP))) END,
      CASE WHEN is_many THEN unix_micros(least(ended_before, CAST(:until AS TIMESTAMP))) * :cells
        DIV (unix_micros(CAST(:until AS TIMESTAMP)) - unix_micros(CAST(:since AS TIMESTAMP))) END,
      CASE WHEN NOT is_many THEN began_after END, CASE WHEN NOT is_many THEN began_before END,
      CASE WHEN NOT is_many THEN ended_after END, CASE WHEN NOT is_many THEN ended_before END
    ) AS cell
  FROM numbered
),

summed AS (
  SELECT *, row_number() OVER (PARTITION BY cell ORDER BY number) AS age,
    count(*) OVER (PARTITION BY cell) AS mark_rows,
    sum(size) OVER (PARTITION BY cell) AS mark_size,
    max(weight) OVER (PARTITION BY cell) AS mark_weight,
    CASE WHEN count(began_after) OVER (PARTITION BY cell) = count(*) OVER (PARTITION BY cell)
      THEN min(began_after) OVER (PARTITION BY cell) END AS mark_began_after,
    min(began_before) OVER (PARTITION BY cell) AS mark_began_before,
    max(began_before) OVER (PARTITION BY cell) AS mark_last_before,
    max(ended_after) OVER (PARTITION BY cell) AS mark_ended_after,
    CASE WHEN count(ended_before) OVER (PARTITION BY cell) = count(*) OVER (PARTITION BY cell)
      THEN max(ended_before) OVER (PARTITION BY cell) END AS mark_ended_before
  FROM marked
),

chosen AS (
  SELECT *, dense_rank() OVER (ORDER BY mark_weight DESC, mark_rows DESC, cell) AS mark FROM summed
)

SELECT id, lane, lane_number, kind, mark, mark_rows, mark_size, mark_began_after, mark_began_before,
  mark_last_before, mark_ended_after, mark_ended_before,
  began_after, began_before, ended_after, ended_before, subject, details, inferred,
  lanes_all, counted_all, rows_all
FROM chosen
WHERE mark <= :most_marks AND age <= :rows_of_mark
ORDER BY age, mark
LIMIT :most_rows
