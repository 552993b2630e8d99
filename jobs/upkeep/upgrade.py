"""A lake of an older version becomes one of this version.

Each table changes in one transaction, rows and columns and properties together: whoever reads it
meanwhile has it as it was, or is refused by its version. internal.states comes last; its version is
the lake's. A property of it says that the lake is being upgraded, so that nobody reads half of each
version. A table that is done is passed over: killed anywhere and run again, the upgrade comes to
its end.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import delete_rows, version_of
from jobs.run.driver import delta_version, has_jvm
from jobs.run.side_by_side import side_by_side
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
from jobs.upkeep.undo import let_go
from schemas.in_spark import OF_LAKE, ensure_tables
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, UPGRADE, Lake, LakeError, older_todo
from schemas.lake import version_of as version_noted
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED, Table
from schemas.upgrades import steps_from
from schemas.upgrades.changes import (
    Change,
    Found,
    change,
    needed_bytes,
    new_constraints,
    says,
    upgraded,
    with_properties,
)

_FRESH: Final = timedelta(hours=1)
"""A commit that is no older is kept for all of undo.UNDO_WITHIN, from the upgrade on."""


def planned(spark: SparkSession, lake: Lake) -> list[str]:
    """What an upgrade would do, how long it takes and what it needs, a line each; none if the lake
    is of this version. Writes nothing. Raises LakeError where it cannot be.
    """
    found = _found(spark, lake)
    state = found[STATE]
    if state.version == LAKE_VERSION:
        return []
    counted = (replace(each, found=_counted(spark, lake, each)) for each in _changes(found, lake))
    made = list(counted)
    _check_space(lake, made)
    return says(str(lake), state.version, made)


def upgrade(spark: SparkSession, lake: Lake) -> Iterator[str]:
    """Upgrade a lake, of a folder or a catalog, and yield a line a step; nothing if it is of this
    version. Done again after a kill it comes to its end. Raises LakeError.
    """
    try:
        lines = planned(spark, lake)
        if not lines:
            return
        yield from lines
        yield from _upgraded(spark, lake)
    except Exception as error:
        raise explained(lake, error) from error


def _upgraded(spark: SparkSession, lake: Lake) -> Iterator[str]:
    began = datetime.now(UTC)
    found = _found(spark, lake)
    note = _begun(spark, lake, found[STATE], began)
    yield from _take_back_rounds(spark, lake)
    for step in steps_from(OLDEST_UPGRADED):
        for name, function in step.functions.items():
            spark.udf.register(name, function)
    made = {each.table: each for each in _changes(_found(spark, lake), lake)}
    state = made.pop(STATE)
    written: dict[Table, int] = {}
    # Those that take long come first: until they are done the older program reads all others.
    for group in _by_length(made.values()):
        versions = side_by_side(partial(_change, spark, lake), group)
        written |= {each.found.table: at for each, at in zip(group, versions, strict=True)}
        yield f"{', '.join(each.table.full_name for each in group)}: done"
    _check_unwritten(spark, lake, written)
    ensure_tables(spark, lake, [table for table in TABLES if not is_there(spark, lake, table)])
    now = datetime.now(UTC)
    done = replace(note, done=now.isoformat(timespec="seconds"))
    _change(spark, lake, state, UPGRADE=done.text)
    yield f"{lake}: version {LAKE_VERSION} now, after {(now - began).total_seconds():.0f} s"


def is_older(spark: SparkSession, lake: Lake) -> bool:
    """Whether a lake is there that an upgrade is for, or that one was broken off in."""
    if not has_jvm(spark) or not is_there(spark, lake, STATE):
        return False
    state = delta_version(spark, lake.identifier(STATE))
    return version_noted(state.metadata["configuration"], lake, STATE) < LAKE_VERSION


def _by_length(made: Collection[Change]) -> list[list[Change]]:
    """Tables that are written again, then all others."""
    long = [each for each in made if each.is_written]
    short = [each for each in made if not each.is_written]
    return [group for group in (long, short) if group]


def stream_begins(spark: SparkSession, lake: Lake) -> datetime | None:
    """When an upgrade began since which polls are in a new stream; None if there was none."""
    note = Note.of(delta_version(spark, lake.identifier(STATE)).metadata)
    if note is None or not any(step.begins_stream for step in steps_from(note.version)):
        return None
    return datetime.fromisoformat(note.began)


# --- what there is ---


def _found(spark: SparkSession, lake: Lake) -> dict[Table, Found]:
    """The tables of a lake as they lie there, by today's. Raises LakeError for one of a version
    that no step begins with.
    """
    if not has_jvm(spark):
        raise LakeError(f"{lake}: {UPGRADE} needs a session of its own, not Spark Connect")

    def look(table: Table) -> Found | None:
        if table.older is not None and is_there(spark, lake, table.older):
            table = table.older
        elif not is_there(spark, lake, table):
            return None
        version = delta_version(spark, lake.identifier(table))
        found = Found(table, version.metadata, version.number, version.bytes, version.at)
        version_noted(version.metadata["configuration"], lake, table)
        if found.version < OLDEST_UPGRADED:
            raise LakeError(
                f"{table.full_name} in {lake} has version {found.version}: "
                f"{older_todo(found.version)}; `query` and `export` read it"
            )
        return found

    looked = side_by_side(look, TABLES)
    found = {table: each for table, each in zip(TABLES, looked, strict=True) if each is not None}
    if STATE not in found:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    note = Note.of(found[STATE].metadata)
    if note is not None and note.undo:
        raise LakeError(
            f"{lake} is half taken back to version {note.version}: run "
            "`kafka-metadata-history upgrade --undo` to its end"
        )
    return found


def _changes(found: Mapping[Table, Found], lake: Lake) -> list[Change]:
    try:
        return [
            change(table, each)
            for table, each in found.items()
            if each.version < LAKE_VERSION or _is_written_since(each)
        ]
    except ValueError as error:
        raise LakeError(
            f"{lake}: {error}; it is not as a program of its version makes it"
        ) from error


def _is_written_since(found: Found) -> bool:
    """Whether a table with another name today was written after it was copied."""
    is_older = found.table not in TABLES
    return is_older and found.before is not None and found.delta_version > found.before + 1


def _counted(spark: SparkSession, lake: Lake, each: Change) -> Found:
    if not each.is_written:
        return each.found
    return replace(each.found, rows=lake.read(spark, each.found.table).count())


def _check_space(lake: Lake, made: Iterable[Change]) -> None:
    if not lake.is_folder:
        return
    free, needed = shutil.disk_usage(str(lake.root)).free, needed_bytes(list(made))
    if free < needed:
        raise LakeError(
            f"{lake}: the upgrade needs {needed / 1e6:,.1f} MB, and its disk has "
            f"{free / 1e6:,.1f} MB: make room first; nothing was written"
        )


# --- what it does ---


def _begun(spark: SparkSession, lake: Lake, state: Found, now: datetime) -> Note:
    """Note that the lake is being upgraded, and let the rounds of older programs end."""
    note = Note.of(state.metadata)
    if note is not None and note.done is not None:
        # Else a table that the upgrade before left is taken for one that is to be copied.
        let_go(spark, lake)
    if note is None or note.done is not None:
        last = lake.read(spark, ROUNDS).agg(F.max("round")).collect()[0][0] or 0
        note = Note(state.version, now.isoformat(timespec="seconds"), last)
        configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=note.text))
    # By these rows an older program would take the lake for its own at one look.
    delete_rows(spark, lake, STATE, f"history = '{OF_LAKE}'")
    return note


def _take_back_rounds(spark: SparkSession, lake: Lake) -> Iterator[str]:
    """Take back the rounds that an older program has planned and not done: this one reads no plan
    of another version.
    """
    to_finish = take_over(spark, lake).to_finish
    found = _found(spark, lake) if to_finish else {}
    for step in reversed(to_finish):
        for table, each in found.items():
            if table in KEPT or table == STATE:
                continue
            version = version_of(spark, lake, each.table, step.round)
            if version is not None:
                restore(spark, lake, each.table, version - 1)
        spark.sql(
            f"UPDATE {lake.identifier(ROUNDS)} SET step = 'started', takes = NULL "
            f"WHERE round = {step.round}"
        )
        yield f"round {step.round} was planned and not done: its input is taken again"


def _change(spark: SparkSession, lake: Lake, each: Change, **properties: str) -> int:
    """Change a table, in one transaction; returns the version of the one that is read no more, or
    of the table itself.
    """
    source = each.found.table
    if datetime.now(UTC) - each.found.at > _FRESH:
        # An undo restores the version of this commit: Delta forgets by age.
        configure(spark, lake, source, lambda old, _: old)
    if each.is_moved:
        ensure_tables(spark, lake, [each.table])
        if each.is_written:
            rows = _rows(spark, lake, each, delta_version(spark, lake.identifier(source)).number)
            configure(spark, lake, each.table, lambda old, _: old, lambda _: rows)
        marked = {"VERSION": str(LAKE_VERSION)}
        return configure(
            spark, lake, source, lambda old, at: with_properties(old, BEFORE=str(at), **marked)
        )
    if not each.is_written:
        _check_constraints(spark, lake, each)
    return configure(
        spark,
        lake,
        source,
        lambda old, at: with_properties(upgraded(each.table, old, at), **properties),
        partial(_rows, spark, lake, each) if each.is_written else None,
    )


def _rows(spark: SparkSession, lake: Lake, each: Change, version: int) -> DataFrame:
    """The rows of a table as they will be, of those in one of its versions."""
    rows = lake.read_version(spark, each.found.table, version)
    for step in each.steps:
        rows = selected(spark, lake, rows, step.rows.get(each.table.full_name, ()))
    return fitted(rows, {column.name: column.type for column in each.table.columns})


def _check_constraints(spark: SparkSession, lake: Lake, each: Change) -> None:
    new = {column.name: column.type for column in each.table.columns}
    for name, check in new_constraints(each).items():
        rows = lake.read(spark, each.found.table)
        nulls = {of: F.lit(None).cast(new[of]) for of in new.keys() - {*rows.columns}}
        if not rows.withColumns(nulls).where(f"NOT ({check})").isEmpty():
            raise LakeError(
                f"{each.table.full_name} in {lake} has rows that break {name} ({check}): it is not "
                "as a program of its version makes it; nothing of it was changed"
            )


def _check_unwritten(spark: SparkSession, lake: Lake, written: Mapping[Table, int]) -> None:
    """Raise LakeError where somebody has written to a table after its change, or is about to."""
    others = [
        table.full_name
        for table, version in written.items()
        if table not in KEPT and delta_version(spark, lake.identifier(table)).number != version
    ]
    if others or (open_ := take_over(spark, lake).to_finish):
        what = ", ".join(others) or f"round {open_[-1].round}"
        raise LakeError(
            f"{lake}: another program wrote {what} meanwhile: end that program, then run {UPGRADE} "
            "again; nothing is lost"
        )
