"""Rows of bronze.cluster_log that no round of history has taken, by cluster."""

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from jobs.rounds.appended import appended, new_versions
from jobs.rounds.stage import as_stored
from schemas.bronze import CLUSTER_LOG
from schemas.lake import Lake


class NewRecords:
    """What commits have appended after the version `noted`, up to which all rows were taken.

    `rows`: by alias. `last`: the version up to which they were read.
    """

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark, self._lake = spark, lake
        self.begin(-1)

    def begin(self, noted: int) -> None:
        """Look next for what commits have appended after a version, -1 for all."""
        self.noted = self.last = noted
        self.rows: dict[str, pa.Table] = {}

    def look(self) -> None:
        """Read what is new."""
        since, last = new_versions(self._spark, self._lake, CLUSTER_LOG, self.last)
        if since < self.last:
            self.noted = since
        if last > since:
            for cluster, rows in read(self._spark, self._lake, since + 1, last).items():
                self.rows[cluster] = pa.concat_tables(filter(None, (self.rows.get(cluster), rows)))
        self.last = last

    def note(self, taken: Mapping[str, bool]) -> None:
        """Forget rows that a round took. `taken`: by alias, whether they have to come again."""
        for cluster, is_open in taken.items():
            if not is_open:
                self.rows.pop(cluster, None)
        if not self.rows:
            self.noted = self.last


def read(
    spark: SparkSession, lake: Lake, first: int, last: int, *, planned: datetime | None = None
) -> dict[str, pa.Table]:
    """The rows that versions of bronze.cluster_log appended, by alias; see `appended`."""
    rows = as_stored(appended(spark, lake, CLUSTER_LOG, first, last, planned=planned), CLUSTER_LOG)
    clusters = pc.unique(rows["cluster"]).to_pylist()
    return {cluster: rows.filter(pc.equal(rows["cluster"], cluster)) for cluster in clusters}


def read_at(rows: pa.Table) -> datetime:
    """When the last of some rows was read."""
    at: datetime = pc.max(rows["read_at"]).as_py()
    return at


def has_news(rows: pa.Table) -> bool:
    """Whether some of the rows say more than that there was nothing to read."""
    is_quiet = pc.and_(
        pc.equal(rows["record"], "span"), pc.equal(rows["went"], "read").fill_null(False)
    )
    return not pc.all(is_quiet).as_py()


def has_snapshot(rows: pa.Table) -> bool:
    """Whether there is a snapshot among the rows."""
    return bool(pc.any(pc.equal(rows["record"], "snapshot")).as_py())
