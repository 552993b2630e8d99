"""How much of what the controllers' log has polls miss, asked of both lakes in one query."""

from datetime import timedelta
from typing import Final

from pyspark.sql import SparkSession

from schemas import bronze, gold
from schemas.lake import Lake
from truth.lake import ALIAS

HEADINGS: Final = ("events", "in the log", "exactly", "within bounds", "only counted", "not at all")

QUERY: Final = """
WITH watched AS (
  SELECT min(received_at) AS since, max(sent_at) - make_dt_interval(0, 0, 0, :tolerance) AS until
  FROM polls_metadata_polls WHERE record = 'poll' AND outcome = 'ok'
),
events AS (
  SELECT 'leader changes' AS events, id, topic_id, partition, leader_epoch, began_before AS at,
    CAST(NULL AS INT) AS broker_id, CAST(NULL AS BOOLEAN) AS has_left
  FROM log_leader_changes WHERE leader <> prev_leader
  UNION ALL
  SELECT 'ISR changes', id, topic_id, partition, NULL, began_before, broker_id, change = 'left'
  FROM log_isr_changes WHERE change <> 'initially_out'
),
found AS (
  SELECT e.events, e.id, e.leader_epoch, e.at, p.id AS row_id
  FROM events e JOIN polls_leader_changes p ON e.events = 'leader changes'
    AND p.topic_id = e.topic_id AND p.partition = e.partition
    AND e.leader_epoch > p.prev_leader_epoch AND e.leader_epoch <= p.leader_epoch
  UNION ALL
  SELECT e.events, e.id, e.leader_epoch, e.at, p.id
  FROM events e JOIN polls_isr_changes p ON e.events = 'ISR changes'
    AND p.topic_id = e.topic_id AND p.partition = e.partition
    AND p.broker_id = e.broker_id AND (p.change = 'left') = e.has_left
    AND p.change <> 'initially_out'
    AND e.at BETWEEN p.began_after - make_dt_interval(0, 0, 0, :tolerance) AND p.began_before
),
ranked AS (
  SELECT *, count(*) OVER (PARTITION BY events, row_id) AS of_row,
    row_number() OVER (PARTITION BY events, row_id ORDER BY leader_epoch DESC, at DESC) AS from_end
  FROM found
),
shown AS (
  SELECT events, id, min(CASE WHEN of_row = 1 THEN 1 WHEN from_end = 1 THEN 2
    WHEN events = 'leader changes' THEN 3 END) AS how
  FROM ranked GROUP BY events, id
)
SELECT events, count(*) AS of_log, count_if(how = 1) AS exactly, count_if(how = 2) AS within_bounds,
  count_if(how = 3) AS only_counted, count_if(how IS NULL) AS not_at_all
FROM events LEFT JOIN shown USING (events, id) CROSS JOIN watched
WHERE at > watched.since AND at < watched.until
GROUP BY events ORDER BY events DESC
"""
"""Counts of the log's leader changes and ISR changes, by the best that a row of the polls' lake
says of each.

A row that holds one change alone shows it exactly, between its bounds. One that holds several shows
the last of them: the others are in its count of hidden changes, which ISR changes do not have.
Views: log_* of the log's lake and polls_* of the polls'. `tolerance`: seconds by which answers may
trail the log.
"""


Counts = tuple[str, int, int, int, int, int]
"""A row of QUERY."""


def missed(spark: SparkSession, polls: Lake, log: Lake, tolerance: timedelta) -> list[Counts]:
    """For leader and ISR changes: how many the log has, and polls show, as in QUERY."""
    views = (
        ("polls", polls, bronze.METADATA_POLLS),
        *(("polls", polls, table) for table in (gold.LEADER_CHANGES, gold.ISR_CHANGES)),
        *(("log", log, table) for table in (gold.LEADER_CHANGES, gold.ISR_CHANGES)),
    )
    for whose, lake, table in views:
        of_cluster = lake.read(spark, table).where(f"cluster = '{ALIAS}'")
        of_cluster.createOrReplaceTempView(f"{whose}_{table.name}")
    return ask(spark, tolerance)


def ask(spark: SparkSession, tolerance: timedelta) -> list[Counts]:
    """Ask QUERY of the views that are there."""
    found = spark.sql(QUERY, args={"tolerance": tolerance.total_seconds()})
    return [
        (row.events, row.of_log, row.exactly, row.within_bounds, row.only_counted, row.not_at_all)
        for row in found.collect()
    ]


def said(counts: Counts) -> tuple[str, ...]:
    """For a table under HEADINGS."""
    events, of_log, *parts = counts
    return events, str(of_log), *(f"{part / of_log:.1%}" if of_log else "-" for part in parts)
