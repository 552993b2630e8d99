"""Rows of a log in bronze that no round has taken, and the position of each in the order of its
partition.

Offsets go back when a log is truncated. So a row's position is the era that it was read in (0, or
when the truncation before it was found, microseconds) and its offset; what was read twice has one
position.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.rules.groups.fold_rebalances import Positions

PARTITION = ("cluster", "log_partition")


def beyond(rows: DataFrame, taken: Mapping[str, Positions]) -> DataFrame:
    """Those of `rows` that are beyond what was taken, by alias, with the columns of POSITION
    (jobs/rules/groups/fold_rebalances.py) and `goes_on_at`, the offset that follows.
    """
    done = [
        (cluster, p, era, offset)
        for cluster, positions in taken.items()
        for p, (era, offset) in positions.items()
    ]
    schema = "cluster string, log_partition int, done_era bigint, done_offset bigint"
    offsets = rows.sparkSession.createDataFrame(done, schema)
    found = F.collect_set(F.unix_micros("read_at")).alias("found")
    truncations = rows.where("record = 'truncated'").groupBy(*PARTITION).agg(found)
    # The last truncation that was found before a row was read, by this round or by one before.
    at = "unix_micros(read_at)"
    era = (
        f"coalesce(greatest(IF(done_era <= {at}, done_era, NULL), array_max(filter(found, f -> f "
        f"<= {at}))), 0)"
    )
    return (
        rows.join(F.broadcast(offsets), list(PARTITION), "left")
        .join(F.broadcast(truncations), list(PARTITION), "left")
        .withColumns(
            {
                "era": F.expr(era),
                "place": F.expr("IF(record = 'truncated', next_offset, offset)"),
                "is_record": F.expr("record = 'record'"),
                "goes_on_at": F.expr("coalesce(next_offset, offset + 1)"),
            }
        )
        .where("done_offset IS NULL OR era > done_era OR (era = done_era AND place >= done_offset)")
        .drop("found", "done_era", "done_offset")
    )
