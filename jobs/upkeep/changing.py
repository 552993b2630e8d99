"""Tables of a lake that is being upgraded, or taken back: how they change, and what notes it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.histories import HISTORIES
from jobs.rounds.commit import retried
from jobs.rounds.plan import Rounds
from jobs.run.cli import one_line
from jobs.run.driver import change_delta, java_causes, java_text
from schemas.gold import MARKS
from schemas.in_spark import table_exists
from schemas.internal import ROUNDS
from schemas.lake import TABLES, UPGRADE_PROPERTY, Lake, LakeError
from schemas.table import Table
from schemas.upgrades.changes import Metadata
from schemas.upgrades.step import Selects

KEPT: Final = (ROUNDS, MARKS, *(table for table in TABLES if table.schema == "bronze"))
"""Tables whose rows an undo keeps: what was seen, what people marked, and the numbers of rounds,
which Delta takes once.
"""


_OTHER: Final = re.compile(r"\{(\w+\.\w+)\}")


@dataclass(frozen=True)
class Note:
    """The value of UPGRADE_PROPERTY. `version`: the lake's before. `rounds`: the last round."""

    version: int
    began: str
    rounds: int = 0
    done: str | None = None
    undo: bool = False

    @classmethod
    def of(cls, metadata: Metadata) -> "Note | None":
        """The note of internal.states; None where there is none."""
        noted = metadata["configuration"].get(UPGRADE_PROPERTY)
        if noted is None:
            return None
        value = json.loads(noted)
        return cls(
            value["from"], value["began"], value["rounds"], value.get("done"), "undo" in value
        )

    @property
    def text(self) -> str:
        """The value of the property."""
        value: dict[str, Any] = {"from": self.version, "began": self.began, "rounds": self.rounds}
        value |= {} if self.done is None else {"done": self.done}
        return json.dumps(value | ({"undo": True} if self.undo else {}))


def is_there(spark: SparkSession, lake: Lake, table: Table) -> bool:
    """Whether a table is in the lake."""
    if lake.is_folder:  # Spark takes a tenth of a second to say so.
        return Path(lake.path(table), "_delta_log").is_dir()
    return table_exists(spark, lake, table)


def take_over(spark: SparkSession, lake: Lake, *more: str) -> Rounds:
    """Take over from all programs that make history of the lake: each ends in one line. `more`:
    other histories that are made with all of them.
    """
    made = [history() for history in HISTORIES]
    names = [name for history in made for name in history.names]
    others = dict(each for history in made for each in history.other_states.items())
    return Rounds(spark, lake, [*names, *more], others)


def configure(
    spark: SparkSession, lake: Lake, table: Table, metadata: Any, rows: Any = None
) -> int:
    """`change_delta` of a table, again if somebody else committed first."""
    versions: list[int] = []
    retried(lambda: versions.append(change_delta(spark, lake.identifier(table), metadata, rows)))
    return versions[-1]


def restore(spark: SparkSession, lake: Lake, table: Table, version: int) -> None:
    """Give a table back the rows and the properties of a version."""
    spark.sql(f"RESTORE TABLE {lake.identifier(table)} TO VERSION AS OF {version}")


def selected(spark: SparkSession, lake: Lake, rows: DataFrame, selects: Selects) -> DataFrame:
    """What SELECTs make of rows; the rows where there are none."""

    def found(name: re.Match[str]) -> str:
        table = next(each for each in TABLES if each.full_name == name[1])
        older = table.older
        is_older = older is not None and is_there(spark, lake, older)
        return lake.identifier(older if older is not None and is_older else table)

    made = [spark.sql(_OTHER.sub(found, select), rows=rows) for select in selects]
    return (
        reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), made)
        if made
        else rows
    )


def fitted(rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """The columns of a table, in its order; null where there is none."""
    return rows.select(
        *(
            (F.col(f"`{name}`") if name in rows.columns else F.lit(None).cast(type_)).alias(name)
            for name, type_ in types.items()
        )
    )


_FULL: Final = ("No space left on device", "Disk quota exceeded")


def explained(lake: Lake, error: Exception) -> Exception:
    """An error in one line that says what to do."""
    if isinstance(error, LakeError):
        return error
    texts = (str(error), java_text(error), *java_causes(error))
    todo = "run it again: it comes to its end where it was broken off"
    if any(each in text for each in _FULL for text in texts):
        todo = "make room, and run it again: it comes to its end where it was broken off"
    return LakeError(f"{lake}: the upgrade was broken off: {one_line(error)}: {todo}")
