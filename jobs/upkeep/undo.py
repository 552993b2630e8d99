"""For seven days after its upgrade a lake becomes what it was; what was recorded since stays."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType

from jobs.run.driver import delete_folder, delta_version, has_jvm
from jobs.upkeep.changing import (
    KEPT,
    Note,
    configure,
    explained,
    fitted,
    is_there,
    restore,
    selected,
    take_over,
)
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, UPGRADE, Lake, LakeError
from schemas.lake import version_of as version_noted
from schemas.table import LAKE_VERSION, Table
from schemas.upgrades import steps_from
from schemas.upgrades.changes import Found, Metadata, change, with_properties
from schemas.upgrades.step import Step

log = logging.getLogger("kafka_metadata_history.upgrade")

UNDO_WITHIN: Final = timedelta(days=7)
"""So long after an upgrade it can be taken back."""


def undo(spark: SparkSession, lake: Lake, now: datetime) -> Iterator[str]:
    """Take an upgrade back, whole or half done: yield a line a step. What was recorded since stays
    in bronze. Raises LakeError where there is none, or it is over.
    """
    try:
        yield from _undone(spark, lake, now)
    except Exception as error:
        raise explained(lake, error) from error


def close_upgrade(spark: SparkSession, lake: Lake, now: datetime) -> None:
    """Let go of what an undo needs, once it is too late for one."""
    if not has_jvm(spark) or not is_there(spark, lake, STATE):
        return
    note = Note.of(delta_version(spark, lake.identifier(STATE)).metadata)
    if note is not None and note.done is not None and now >= _until(note):
        let_go(spark, lake)
        log.info("%s: the upgrade of %s cannot be taken back any more", lake, note.done)


def let_go(spark: SparkSession, lake: Lake) -> None:
    """Let go of what an undo needs: the tables under their older names, and the files and the log
    of all, which upkeep removes then. The note goes last.
    """
    for table in TABLES:
        if table.older is not None and is_there(spark, lake, table.older):
            _drop(spark, lake, table.older)
        if table != STATE and is_there(spark, lake, table):
            configure(spark, lake, table, partial(_closed, table))
    configure(spark, lake, STATE, partial(_closed, STATE))


def _closed(table: Table, old: Metadata, _: int) -> Metadata:
    """The metadata of an upgraded table without what an undo needs."""
    retention = {f"delta.{of}RetentionDuration" for of in ("log", "deletedFile")}
    of_table = {name: table.properties[name] for name in retention}
    made = with_properties(old, UPGRADE=None, BEFORE=None)
    return made | {"configuration": made["configuration"] | of_table}


def _until(note: Note) -> datetime:
    return datetime.fromisoformat(note.done or note.began) + UNDO_WITHIN


def _undone(spark: SparkSession, lake: Lake, now: datetime) -> Iterator[str]:
    note = _to_undo(spark, lake, now)
    going = replace(note, undo=True)
    configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=going.text))
    take_over(spark, lake)
    steps = steps_from(note.version)

    def put_back(table: Table) -> list[str]:
        if table.older is not None and is_there(spark, lake, table.older):
            return list(_named_back(spark, lake, table, table.older))
        return list(_put_back(spark, lake, table, steps)) if is_there(spark, lake, table) else []

    with ThreadPoolExecutor(4, "undo") as side_by_side:
        for lines in side_by_side.map(put_back, (each for each in TABLES if each != STATE)):
            yield from lines
    spark.sql(
        f"UPDATE {lake.identifier(ROUNDS)} SET step = 'started', takes = NULL "
        f"WHERE step = 'planned' AND round > {note.rounds}"
    )
    if (before := _before(spark, lake, STATE)) is not None:
        restore(spark, lake, STATE, before)
    configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=None))
    yield f"{lake}: version {note.version} again; what was recorded since becomes history again"


def _to_undo(spark: SparkSession, lake: Lake, now: datetime) -> Note:
    """The upgrade that is to be taken back. Raises LakeError."""
    if not has_jvm(spark):
        raise LakeError(f"{lake}: {UPGRADE} needs a session of its own, not Spark Connect")
    if not is_there(spark, lake, STATE):
        raise LakeError(f"{lake}: no lake there; nothing was written")
    note = Note.of(delta_version(spark, lake.identifier(STATE)).metadata)
    if note is None:
        raise LakeError(
            f"{lake}: there is no upgrade to take back: none was made, or seven days have passed "
            "since; nothing was written"
        )
    if note.done is not None and now > _until(note) and not note.undo:
        raise LakeError(
            f"{lake} was upgraded at {note.done}, more than seven days ago: what it was is kept no "
            "longer; nothing was written"
        )
    return note


def _named_back(spark: SparkSession, lake: Lake, table: Table, older: Table) -> Iterator[str]:
    if (before := _before(spark, lake, older)) is not None:
        # Nothing of it but a property was changed.
        _go_back(spark, lake, older, before, ())
    if is_there(spark, lake, table):
        _drop(spark, lake, table)
        yield f"{older.full_name}: as it was"


def _put_back(
    spark: SparkSession, lake: Lake, table: Table, steps: tuple[Step, ...]
) -> Iterator[str]:
    if (before := _before(spark, lake, table)) is None:
        if table not in KEPT and _is_new(spark, lake, table):
            _drop(spark, lake, table)
            yield f"{table.full_name}: deleted, the upgrade made it"
        return
    if table in KEPT or _is_as_before(spark, lake, table, before):
        _go_back(spark, lake, table, before, steps)
    else:
        restore(spark, lake, table, before)
    since = ", with what came since" if table in KEPT else ""
    yield f"{table.full_name}: as it was{since}"


def _is_as_before(spark: SparkSession, lake: Lake, table: Table, before: int) -> bool:
    """Whether a table has the rows of the version before its upgrade, which RESTORE would take long
    to find.
    """
    now, was = (delta_version(spark, lake.identifier(table), each) for each in (None, before))
    found = Found(table, was.metadata, was.number, was.bytes, was.at)
    return now.number == before + 1 and not change(table, found).is_written


def _is_new(spark: SparkSession, lake: Lake, table: Table) -> bool:
    """Whether a table without a version before its upgrade is of this program's: not one that the
    upgrade did not come to, or that an undo has put back already.
    """
    found = delta_version(spark, lake.identifier(table)).metadata["configuration"]
    return version_noted(found, lake, table) == LAKE_VERSION


def _before(spark: SparkSession, lake: Lake, table: Table) -> int | None:
    version = delta_version(spark, lake.identifier(table))
    return Found(table, version.metadata, version.number, 0, version.at).before


def _go_back(
    spark: SparkSession, lake: Lake, table: Table, before: int, steps: tuple[Step, ...]
) -> None:
    """Make a table what it was, with all rows that it has by now."""
    selects = [
        step.back[table.full_name] for step in reversed(steps) if table.full_name in step.back
    ]
    was = delta_version(spark, lake.identifier(table), before).metadata

    def rows(version: int) -> DataFrame:
        found = lake.read_version(spark, table, version)
        for each in selects:
            found = selected(spark, lake, found, each)
        types = lake.read_version(spark, table, before).schema
        narrowed = {
            each.name: _without_more(F.col(f"`{each.name}`"), each.dataType)
            for each in types
            if each.name in found.columns
            and found.schema[each.name].dataType.simpleString() != each.dataType.simpleString()
        }
        return fitted(
            found.withColumns(narrowed),
            {each.name: each.dataType.simpleString() for each in types},
        )

    configure(spark, lake, table, lambda *_: was, rows if selects else None)


def _without_more(value: Column, of: DataType) -> Column:
    """A value without the fields of its structs that a type has not."""
    if isinstance(of, ArrayType):
        return F.transform(value, lambda each: _without_more(each, of.elementType))
    if isinstance(of, StructType):
        fields = (_without_more(value[each.name], each.dataType).alias(each.name) for each in of)
        return F.when(value.isNotNull(), F.struct(*fields))
    return value


def _drop(spark: SparkSession, lake: Lake, table: Table) -> None:
    if lake.root is not None:
        delete_folder(spark, lake.path(table))
    else:
        spark.sql(f"DROP TABLE {lake.identifier(table)}")
