"""A lake held against what its own bronze gives."""

from operator import itemgetter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from schemas import bronze, gold, internal, silver
from schemas.lake import Lake
from tests.lakes import make_history, new_lake, rows_of
from tests.support import stored

MADE = (*silver.TABLES, *gold.ISR_TABLES, *gold.LEADER_TABLES)


def check_lake(spark: SparkSession, lake: Lake, scratch: Path, dropped: DataFrame | None = None) -> None:
    """No poll twice, no hole in a stream's numbers; silver is what its bronze gives afresh, and gold what that gives.

    `dropped`: rows that bronze has had.
    """
    polls = lake.read(spark, bronze.METADATA_POLLS)
    polls = polls if dropped is None else polls.unionByName(dropped)
    headers = polls.where("record = 'poll'")
    assert headers.groupBy("cluster", "poll_id").count().where("count > 1").isEmpty()
    assert polls.groupBy(*bronze.METADATA_POLLS.key).count().where("count > 1").isEmpty()
    holes = headers.groupBy("cluster", "stream").agg(F.max("n") - F.min("n") + 1 - F.count("*"), F.min("n")).collect()
    assert [tuple(row)[2:] for row in holes] == [(0, 0)] * len(holes)
    afresh = new_lake(spark, scratch)
    polls.write.format("delta").mode("append").save(afresh.path(bronze.METADATA_POLLS))
    make_history(spark, afresh)
    for table in MADE:
        assert rows_of(lake, table) == rows_of(afresh, table), table.full_name
    clusters = lake.read(spark, silver.CLUSTER_SNAPSHOTS)
    assert clusters.where("kind <> 'kafka' OR size(contradictions) > 0").isEmpty(), "Kafka contradicts itself"
    steps = lake.read(spark, internal.ROUNDS)
    assert steps.groupBy("round").count().where("count > 1").isEmpty()
    done = {row["history"]: row["round"] for row in sorted(stored.newest_states(lake), key=itemgetter("round"))}
    for row in steps.where("step = 'planned'").collect():
        assert any(done.get(history, 0) >= row.round for history in row.histories), f"round {row.round} is not done"
