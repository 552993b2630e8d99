"""The rows that a round of groups reads: of the coordinators' log, and of groups in silver."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.histories.group_log import COLUMNS, new_rows
from jobs.rounds.history import KEY, Context, Rows, key_column
from jobs.rounds.live import PARTS, part_column
from jobs.rules.groups.fold_rebalances import POSITION, GroupTake, Positions
from schemas.bronze import GROUP_LOG
from schemas.silver import GROUP_SNAPSHOTS
from schemas.table import PART


@dataclass
class GroupRows:
    """Rows of the log and of silver, and the keys of their groups. `ids`: of the clusters whose log
    has rows. `ends`: by alias, up to where the log was read; `read_at`: when its last rows were.
    `waits`: whether there are rows of a cluster whose id nobody knows yet.
    """

    rows: list[Rows] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    ids: dict[str, str] = field(default_factory=dict)
    ends: dict[str, Positions] = field(default_factory=lambda: defaultdict(dict))
    read_at: dict[str, datetime] = field(default_factory=dict)
    waits: bool = False

    def add_log(
        self,
        context: Context,
        log: DataFrame,
        ids: Mapping[str, str],
        taken: Mapping[str, Positions],
        left_out: Sequence[str],
    ) -> None:
        """Add rows of the log. `ids`: alias -> cluster id, of clusters whose answers did not tell
        it. `taken`: by alias, up to where rows were taken before.
        """
        known = context.spark.createDataFrame(list(ids.items()), "cluster string, _id string")
        rows = log.join(F.broadcast(known), "cluster", "left")
        rows = rows.where(~F.col("cluster").isin(list(left_out)))
        rows = rows.withColumn("cluster_id", F.coalesce("cluster_id", "_id")).drop("_id")
        # A gap says something of every group that is kept in its partition; other rows without a
        # group, of none.
        of_group = F.when(F.col("group_id").isNotNull(), F.array(part_column("group_id")))
        is_gap = F.col("record").isin("lost", "truncated")
        parts = of_group.when(is_gap, F.array(*map(F.lit, range(PARTS))))
        rows = new_rows(rows, taken).withColumn("_parts", parts).localCheckpoint()
        of_partition = rows.groupBy("cluster", "cluster_id", "log_partition").agg(
            F.max(F.struct("era", "goes_on_at")).alias("end"),
            F.flatten(F.collect_set("_parts")).alias("parts"),
            F.max("read_at").alias("read_at"),
        )
        for row in of_partition.toArrow().to_pylist():
            cluster = row["cluster"]
            if row["cluster_id"] is None:
                self.waits = True
                continue
            self.ids.setdefault(cluster, row["cluster_id"])
            self.ends[cluster][row["log_partition"]] = row["end"]["era"], row["end"]["goes_on_at"]
            self.keys.update(f"{cluster}/{part}" for part in row["parts"])
            self.read_at[cluster] = max(row["read_at"], self.read_at.get(cluster, row["read_at"]))
        said = rows.where("cluster_id IS NOT NULL").withColumn(PART, F.explode("_parts"))
        keyed = said.select(key_column(F.col(PART)).alias(KEY), *COLUMNS, *POSITION)
        self.rows.append((GROUP_LOG, keyed))

    def add_polls(self, context: Context, clusters: Mapping[str, GroupTake]) -> None:
        """Add the states of groups that began, or ended, in the polls that are taken."""
        taken = [
            (alias, each.since or "", each.until)
            for alias, each in clusters.items()
            if each.until is not None
        ]
        if not taken:
            return
        least = min(since for _, since, _ in taken)
        schema = "cluster string, _since string, _until string"
        bounds = F.broadcast(context.spark.createDataFrame(taken, schema))
        rows = context.lake.read(context.spark, GROUP_SNAPSHOTS)
        rows = rows.where(F.col("is_current") | (F.col("superseded_poll") > least))
        rows = rows.join(bounds, "cluster").where(
            "(first_poll > _since AND first_poll <= _until)"
            " OR (superseded_poll > _since AND superseded_poll <= _until)"
        )
        rows = rows.localCheckpoint().withColumn(KEY, key_column(part_column("group_id")))
        self.keys.update(row[0] for row in rows.select(KEY).distinct().collect())
        self.rows.append((GROUP_SNAPSHOTS, rows.select(KEY, *GROUP_SNAPSHOTS.column_names)))
