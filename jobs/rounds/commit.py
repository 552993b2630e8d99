"""The one way in which a round writes a table: live rows are replaced, others appended, in one
transaction.

The rows that are live (`Table.live`) lie in files of their own, in parts. A commit overwrites the
parts in which something changes, copies the rows there that did not change, and appends what is
closed. Whole partitions of files are deleted without a look into them, and no MERGE has to find
rows.

Each commit carries the number of its round (`txnAppId`, `txnVersion`): Delta passes over one that
it has already.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from delta import exceptions as delta
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.stage import ddl
from jobs.run import driver
from schemas.lake import Lake
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.commit")

CONFLICTS = (
    delta.ConcurrentWriteException,
    delta.ConcurrentAppendException,
    delta.ConcurrentDeleteReadException,
    delta.ConcurrentDeleteDeleteException,
    delta.ConcurrentTransactionException,
    delta.MetadataChangedException,
)
TRIES = 5
"""How often a commit that lost against another one (of upkeep, which is brief) is tried."""
_FREE_OVERWRITE = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


def can_replace(spark: SparkSession) -> bool:
    """Let commits of this session append closed rows in the transaction that replaces live ones;
    whether the session lets us.

    Spark Connect servers and Unity Catalog may refuse the setting. Then a MERGE of the same rows
    takes the place of the overwrite.
    """
    try:
        spark.conf.set(_FREE_OVERWRITE, "false")
    except PySparkException:
        return False
    return True


@dataclass(frozen=True)
class Commit:
    """The rows that a round writes to one table.

    `where`: a condition on the columns of its partitions; `rows` take the place of all live rows
    that fulfil it, or are closed rows that are appended. None: rows are only appended.
    """

    table: Table
    rows: DataFrame
    where: str | None = None

    def write(self, lake: Lake, number: int, *, replacing: bool) -> None:
        """Commit to Delta. `number`: of the round; one that the table has had is passed over."""
        if self.where is None or replacing:
            where = self.where and f"{self.table.live} AND {self.where}"
            retried(_save, self.rows, lake, self.table, where, _of_round(self.table, number))
        elif version_of(self.rows.sparkSession, lake, self.table, number) is None:
            retried(self._merge, lake, number)

    def _merge(self, lake: Lake, number: int) -> None:
        """Do what the overwrite does. The condition names the round, as metadata cannot."""
        live = "true" if self.table.live == "true" else f"t.{self.table.live}"
        replaced = f"{live} AND t.{self.where}"
        same = " AND ".join(f"t.`{name}` <=> s.`{name}`" for name in self.table.key)
        # Of a column, so that the optimizer leaves it there: no cluster has such an alias.
        same += f" AND NOT (s.cluster <=> '{_mark_of(number)}')"
        names = self.table.column_names
        update = ", ".join(
            f"t.`{name}` = s.`{name}`" for name in names if name not in self.table.key
        )
        columns, values = (", ".join(f"{of}`{name}`" for name in names) for of in ("", "s."))
        self.rows.sparkSession.sql(
            f"MERGE INTO {lake.identifier(self.table)} t USING {{rows}} s ON {same} AND {replaced} "
            f"WHEN MATCHED THEN UPDATE SET {update} WHEN NOT MATCHED THEN INSERT ({columns}) "
            f"VALUES ({values}) "
            f"WHEN NOT MATCHED BY SOURCE AND {replaced} THEN DELETE",
            rows=self.rows,
        )


def metadata_of(number: int) -> str:
    """The user metadata of a round's commits."""
    return f"round {number}"


MARK = r" round ([0-9]+)\."
"""As the condition of a MERGE names its round: such a commit has no metadata of its own."""


def _mark_of(number: int) -> str:
    return f" {metadata_of(number)}."


def newest_commit(spark: SparkSession, lake: Lake, table: Table) -> driver.TableCommit:
    """The newest commit to a table."""
    return driver.newest_commit(spark, lake.identifier(table))


def newest_version(spark: SparkSession, lake: Lake, table: Table) -> int:
    """The newest version of a table."""
    return newest_commit(spark, lake, table).version


def version_of(
    spark: SparkSession, lake: Lake, table: Table, number: int, *, or_later: bool = False
) -> int | None:
    """The version of a table that a round has written; None where it has not. `or_later`: it, or
    the first one after it that has.
    """
    commits = spark.sql(f"DESCRIBE HISTORY {lake.identifier(table)}")
    marks = (
        ("userMetadata", r"^round ([0-9]+)$"),
        (F.col("operationParameters")["predicate"], MARK),
    )
    of = F.coalesce(*(F.regexp_extract(text, mark, 1).try_cast("bigint") for text, mark in marks))
    of_round = commits.where(of >= number if or_later else of == number)
    found: int | None = of_round.agg(F.min("version")).collect()[0][0]
    return found


def append_rows(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    number: int | None = None,
    *,
    metadata: str | None = None,
) -> None:
    """Append rows that are here already, in one commit. A `number` that the table has had is passed
    over. `metadata`: what DESCRIBE HISTORY shows of it.
    """
    _save(frame(spark, table, rows), lake, table, None, _of_round(table, number, metadata=metadata))


def replace_rows(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    where: str,
    *,
    number: int | None = None,
    metadata: str | None = None,
) -> None:
    """Put rows that are here already in the place of those that fulfil `where`, a condition on
    columns of partitions.

    A `number` that such a commit of the table has had is passed over. `metadata`: as of
    `append_rows`.
    """
    options = _of_round(table, number, where, metadata)
    retried(_save, frame(spark, table, rows), lake, table, where, options)


def delete_rows(spark: SparkSession, lake: Lake, table: Table, where: str) -> None:
    """Delete the rows that fulfil `where`; done twice, it changes nothing."""
    retried(spark.sql, f"DELETE FROM {lake.identifier(table)} WHERE {where}")


def delete_matching(spark: SparkSession, lake: Lake, table: Table, query: str, on: str) -> None:
    """Delete the rows (`t`) that match one of a query (`s`) by `on`; twice changes nothing more."""
    retried(
        spark.sql,
        f"MERGE INTO {lake.identifier(table)} t USING ({query}) s ON {on} WHEN MATCHED THEN DELETE",
    )


def frame(spark: SparkSession, table: Table, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Rows that are here already, with the columns of a table that writers give values for."""
    values = [tuple(map(row.get, table.column_names)) for row in rows]
    return spark.createDataFrame(values, ddl(table)).coalesce(1)


def _of_round(
    table: Table, number: int | None, where: str = "", metadata: str | None = None
) -> dict[str, str]:
    """The options by which a commit names its round, and Delta passes over one that it has."""
    if number is None:
        return {} if metadata is None else {"userMetadata": metadata}
    name = f"round {table.full_name} {where}".rstrip()
    return {
        "userMetadata": metadata or metadata_of(number),
        "txnAppId": name,
        "txnVersion": str(number),
    }


def _save(
    rows: DataFrame, lake: Lake, table: Table, where: str | None, options: Mapping[str, str]
) -> None:
    """Append rows, or put them in the place of those that fulfil `where`."""
    write = rows.write.format("delta").options(**options).mode("append")
    if where is not None:
        write = write.mode("overwrite").option("replaceWhere", where)
    if lake.root is not None:
        write.save(lake.path(table))
    else:
        write.saveAsTable(lake.identifier(table))


def retried(write: Callable[..., object], *args: object) -> None:
    """Commit, and if another commit came first, again, up to TRIES times."""
    for tried in range(1, TRIES + 1):
        try:
            write(*args)
        except CONFLICTS as error:
            if tried == TRIES:
                raise
            log.info("a commit is tried again: %s", str(error).splitlines()[0])
            time.sleep(0.1 * tried)
        else:
            return
