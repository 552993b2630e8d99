"""What the demo's lake has recorded, read from its tables.

spark-submit demo/summary.py CONFIG
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.common.config import load
from jobs.common.session import spark_session
from metadata_source.text import text_table
from schemas import gold, groups, silver
from schemas.in_spark import attach

CHANGES = Path(__file__).with_name("changes.sql")
POLLS = """
SELECT count_if(record = 'poll') AS polls, count_if(outcome = 'ok') AS ok, count_if(outcome = 'failed') AS failed,
  count(*) AS rows, percentile(latency_ms, 0.5) AS latency_ms
FROM bronze.metadata_polls
"""
INCIDENTS = """
SELECT date_format(began_before, "HH:mm:ss.SSS'Z'") AS `missing from ISRs by`, broker_id AS broker, rack,
  concat(round(duration_ms_min / 1000, 1), ' to ', round(duration_ms_max / 1000, 1), ' s') AS `for`,
  partitions, array_join(causes, ', ') AS `because (inferred)`, worst_level AS `worst level`
FROM gold.broker_incidents
ORDER BY began_before, broker_id
"""
LEADERS = """
SELECT reason AS `leaders changed by (inferred)`, count(*) AS seen, sum(changes_min) AS `at least`,
  sum(changes_max) AS `at most`,
  count_if(unclean <> 'no') AS `maybe unclean`, round(max(leaderless_ms_max) / 1000, 1) AS `longest without, s`
FROM gold.leader_changes
GROUP BY reason
ORDER BY seen DESC
"""
REBALANCES = """
SELECT date_format(coalesce(narrowed_before, began_before), "HH:mm:ss.SSS'Z'") AS `rebalanced`, group_id AS `group`,
  group_type AS type,
  concat(prev_generation, ' to ', generation) AS generation,
  concat(prev_members, ' to ', members) AS members, members_joined AS joined, members_left AS left,
  partitions_kept AS kept, partitions_moved + partitions_added AS `got another`, phases,
  array_join(reasons, ', ') AS `because (inferred)`,
  concat(round(duration_ms_min / 1000, 1), ' to ', round(duration_ms_max / 1000, 1), ' s') AS took,
  CASE WHEN followed_coordinator_move THEN concat('to broker ', coordinator) END AS `after a move of the coordinator`
FROM gold.rebalances
ORDER BY began_before, group_id
"""
HISTORIES = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
    silver.TOPIC_CONFIGS,
    silver.REASSIGNMENTS,
    silver.PARTITION_ELR,
    silver.POLL_GAPS,
    *gold.ISR_TABLES,
    *gold.LEADER_TABLES,
    silver.GROUP_SNAPSHOTS,
    groups.REBALANCES,
    groups.REBALANCE_MEMBERS,
    groups.GROUP_EVENTS,
    groups.REBALANCE_STORMS,
)


def main(arguments: Sequence[str]) -> int:
    """Print the changes, and what each table got."""
    spark = spark_session("demo summary")
    attach(spark, load(arguments[0]).lake)
    for text in (CHANGES.read_text(), INCIDENTS, LEADERS, REBALANCES):
        rows = spark.sql(text)
        print("\n".join([*text_table(rows.columns, rows.collect()), ""]))
    (polls,) = spark.sql(POLLS).collect()
    print(
        f"{polls.polls} polls ({polls.ok} good, {polls.failed} failed; an answer took {polls.latency_ms:.1f} ms in "
        f"the median)"
        f" are {polls.rows} rows of bronze.metadata_polls; with what the coordinators of groups wrote that became:"
    )
    print(
        "\n".join(
            text_table(
                ("table", "rows"), ((table.full_name, spark.table(table.full_name).count()) for table in HISTORIES)
            )
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
