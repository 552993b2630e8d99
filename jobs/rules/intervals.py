"""From observations to intervals: slowly changing dimension, type 2, over numbered polls."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def intervals(observations: DataFrame, key: Sequence[str], state: Sequence[str]) -> DataFrame:
    """One row for each distinct state of each key, in the order of `ord`.

    `observations`: the key's columns (cluster among them), `ord` (number of the poll), the columns of `state`,
    `ended_as` (not null: the thing was gone at this poll; its state is not looked at), `first_poll` (not null: the row
    that is open already, with its `prev_*` and the rest known). At most one for each key and `ord`.

    A null in a state column says that the answer could not tell: the value before stays, and no row is opened for it.

    Returns the key, `ord`, the state, `prev_<column>` (null for the first state of a thing), `first_poll`, and
    `superseded_ord` and `ended_as`, null while nothing disagreed. Rows that say the same as the one before are gone.
    """
    by_key = Window.partitionBy(*key).orderBy("ord")
    lives = observations.withColumn(
        "_life",
        F.coalesce(
            F.sum(F.col("ended_as").isNotNull().cast("int")).over(by_key.rowsBetween(Window.unboundedPreceding, -1)),
            F.lit(0),
        ),
    )
    life = Window.partitionBy(*key, "_life").orderBy("ord")
    so_far = life.rowsBetween(Window.unboundedPreceding, 0)
    known = lives.withColumns({column: F.last(column, ignorenulls=True).over(so_far) for column in state})
    now = F.struct(*state)
    changed = known.withColumn(
        "_changed",
        F.col("ended_as").isNotNull() | (F.row_number().over(life) == 1) | ~F.lag(now).over(life).eqNullSafe(now),
    ).where("_changed")
    return (
        changed.withColumns(
            {
                **{f"prev_{column}": F.lag(column).over(life) for column in state},
                "superseded_ord": F.lead("ord").over(life),
                "_ends_as": F.lead("ended_as").over(life),
            }
        )
        .where(F.col("ended_as").isNull())
        .drop("_life", "_changed", "ended_as")
        .withColumnRenamed("_ends_as", "ended_as")
    )
