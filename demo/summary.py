"""What the demo's lake has recorded, read from its tables.

spark-submit demo/summary.py CONFIG
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.common.config import load
from jobs.common.session import spark_session
from metadata_source.text import text_table
from schemas import silver
from schemas.lake import attach

CHANGES = Path(__file__).with_name("changes.sql")
POLLS = """
SELECT count_if(record = 'poll') AS polls, count_if(outcome = 'ok') AS ok, count_if(outcome = 'failed') AS failed,
  count(*) AS rows, percentile(latency_ms, 0.5) AS latency_ms
FROM bronze.metadata_polls
"""
HISTORIES = (
    silver.BROKER_SNAPSHOTS,
    silver.TOPIC_SNAPSHOTS,
    silver.PARTITION_SNAPSHOTS,
    silver.CLUSTER_SNAPSHOTS,
    silver.POLL_GAPS,
)


def main(arguments: Sequence[str]) -> int:
    """Print the changes, and what each table got."""
    spark = spark_session("demo summary")
    attach(spark, load(arguments[0]).lake)
    changes = spark.sql(CHANGES.read_text())
    print("\n".join(text_table(changes.columns, changes.collect())))
    (polls,) = spark.sql(POLLS).collect()
    print(
        f"\n{polls.polls} polls ({polls.ok} good, {polls.failed} failed; an answer took {polls.latency_ms:.1f} ms in the median)"
        f" are {polls.rows} rows of bronze.metadata_polls, and in silver:"
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
