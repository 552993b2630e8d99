"""The tables of a lake as they were together, while rounds of history are made."""

from collections.abc import Iterable

from pyspark.sql import SparkSession

from jobs.rounds.commit import newest_version, version_of
from jobs.rounds.plan import last_done
from jobs.run.side_by_side import side_by_side
from schemas.internal import ROUNDS, STATE
from schemas.lake import Lake
from schemas.table import Table


def versions(spark: SparkSession, lake: Lake, tables: Iterable[Table]) -> dict[Table, int]:
    """A version of each table: all have the same rounds, those that internal.states says are done.

    Bronze has what these have taken, and may have more.
    """
    tables = [*tables]
    if not {ROUNDS, STATE} <= {*tables}:  # no job has made history in the lake
        return dict(
            zip(
                tables,
                side_by_side(lambda each: newest_version(spark, lake, each), tables),
                strict=True,
            )
        )
    states = newest_version(spark, lake, STATE)
    newest = side_by_side(lambda table: newest_version(spark, lake, table), tables)
    later = rounds_after(spark, lake, states)  # each has a plan before its first commit

    def before_them(table: Table, version: int) -> int:
        found = (version_of(spark, lake, table, number) for number in later)
        return min([version, *(each - 1 for each in found if each is not None)])

    of_tables = side_by_side(lambda each: before_them(*each), zip(tables, newest, strict=True))
    return {**dict(zip(tables, of_tables, strict=True)), STATE: states}


def rounds_after(spark: SparkSession, lake: Lake, states: int) -> list[int]:
    """The numbers of the rounds that are planned, and not done in a version of internal.states."""
    done = last_done(spark, lake, states)
    planned = lake.read(spark, ROUNDS).where("step = 'planned'").select("round", "histories")
    return [
        row.round
        for row in planned.collect()
        if all(done.get(history, 0) < row.round for history in row.histories)
    ]
