"""A lake of an older version becomes one of this version, and for seven days what it was again.

Each table changes in one transaction, rows and columns and properties together: whoever reads it
meanwhile has it as it was, or is refused by its version. internal.states comes last; its version is
the lake's. A property of it says that the lake is being upgraded, so that nobody reads half of each
version. Done before, it is passed over: killed anywhere and run again, the upgrade comes to its end.
"""

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.histories import HISTORIES
from jobs.rounds.commit import delete_rows, newest_version, retried, version_of
from jobs.rounds.plan import Rounds
from jobs.run.cli import one_line
from jobs.run.driver import (
    change_delta,
    delete_folder,
    delta_version,
    has_jvm,
    java_causes,
    java_text,
)
from schemas.in_spark import OF_LAKE, check_commits, ensure_tables, table_exists
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, UPGRADE, UPGRADE_PROPERTY, Lake, LakeError, older_todo
from schemas.lake import version_of as version_noted
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED, Table
from schemas.upgrades import steps_from
from schemas.upgrades.changes import (
    Change,
    Found,
    Metadata,
    as_made,
    change,
    needed_bytes,
    new_constraints,
    says,
    upgraded,
    with_properties,
)
from schemas.upgrades.step import Selects, Step

log = logging.getLogger("kafka_metadata_history.upgrade")

UNDO_WITHIN: Final = timedelta(days=7)
"""So long after an upgrade it can be taken back."""

_KEPT: Final = (ROUNDS, *(table for table in TABLES if table.schema == "bronze"))
"""Tables whose rows an undo keeps: what was seen, and the numbers of rounds, which Delta takes
once.
"""


@dataclass(frozen=True)
class _Note:
    """The value of UPGRADE_PROPERTY. `version`: the lake's before. `rounds`: the last round then."""

    version: int
    began: str
    rounds: int = 0
    done: str | None = None
    undo: bool = False

    @classmethod
    def of(cls, metadata: Metadata) -> "_Note | None":
        noted = metadata["configuration"].get(UPGRADE_PROPERTY)
        if noted is None:
            return None
        value = json.loads(noted)
        return cls(
            value["from"], value["began"], value["rounds"], value.get("done"), "undo" in value
        )

    @property
    def text(self) -> str:
        value: dict[str, Any] = {"from": self.version, "began": self.began, "rounds": self.rounds}
        value |= {} if self.done is None else {"done": self.done}
        return json.dumps(value | ({"undo": True} if self.undo else {}))


def planned(spark: SparkSession, lake: Lake) -> list[str]:
    """What an upgrade would do, how long it takes and what it needs, a line each; none if the lake
    is of this version. Writes nothing. Raises LakeError where it cannot be.
    """
    found = _found(spark, lake)
    state = found.get(STATE, found.get(next(iter(found))))
    if state is None or state.version == LAKE_VERSION:
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
        raise _explained(lake, error) from error


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
    for each in sorted(made.values(), key=lambda each: -each.found.bytes):
        if each.is_rewritten:
            written[each.found.table] = _change(spark, lake, each)
            yield f"{each.table.full_name}: done"
    others = [each for each in made.values() if not each.is_rewritten]
    with ThreadPoolExecutor(4, "upgrade") as side_by_side:
        versions = list(side_by_side.map(partial(_change, spark, lake), others))
    written |= {each.found.table: version for each, version in zip(others, versions, strict=True)}
    yield f"{len(others)} other tables: done"
    _check_unwritten(spark, lake, written)
    now = datetime.now(UTC)
    done = replace(note, done=now.isoformat(timespec="seconds"))
    _change(spark, lake, state, UPGRADE=done.text)
    yield f"{lake}: version {LAKE_VERSION} now, after {(now - began).total_seconds():.0f} s"


def undo(spark: SparkSession, lake: Lake, now: datetime) -> Iterator[str]:
    """Take an upgrade back, whole or half done: yield a line a step. What was recorded since stays
    in bronze. Raises LakeError where there is none, or it is over.
    """
    try:
        yield from _undone(spark, lake, now)
    except Exception as error:
        raise _explained(lake, error) from error


def begins_stream(spark: SparkSession, lake: Lake) -> int | None:
    """The version from which a lake was upgraded, if polls begin a new stream since then; else
    None.
    """
    note = _Note.of(delta_version(spark, lake.identifier(STATE)).metadata)
    is_anew = note is not None and any(step.begins_stream for step in steps_from(note.version))
    return note.version if note is not None and is_anew else None


def close(spark: SparkSession, lake: Lake, now: datetime) -> None:
    """Let go of what an undo needs, once it is too late for one: the tables under their older names,
    and the files and the log of all, which upkeep removes then.
    """
    note = (
        _Note.of(delta_version(spark, lake.identifier(STATE)).metadata) if has_jvm(spark) else None
    )
    if note is None or note.done is None or now < _until(note):
        return
    for table in TABLES:
        if table.older is not None and _is_there(spark, lake, table.older):
            _drop(spark, lake, table.older)
        if table != STATE and _is_there(spark, lake, table):
            _configure(spark, lake, table, lambda old, _, of=table: as_made(of, old))
    _configure(spark, lake, STATE, lambda old, _: as_made(STATE, old))
    log.info("%s: the upgrade of %s cannot be taken back any more", lake, note.done)


# --- what there is ---


def _found(spark: SparkSession, lake: Lake) -> dict[Table, Found]:
    """The tables of a lake as they lie there, by today's. Raises LakeError for one of a version
    that no step begins with.
    """
    if not has_jvm(spark):
        raise LakeError(f"{lake}: {UPGRADE} needs a session of its own, not Spark Connect")
    check_commits(spark, lake)

    def look(table: Table) -> Found | None:
        if table.older is not None and _is_there(spark, lake, table.older):
            table = table.older
        elif not _is_there(spark, lake, table):
            return None
        version = delta_version(spark, lake.identifier(table))
        found = Found(table, version.metadata, version.number, version.bytes)
        version_noted(version.metadata["configuration"], lake, table)
        if found.version < OLDEST_UPGRADED:
            raise LakeError(
                f"{table.full_name} in {lake} has version {found.version}: "
                f"{older_todo(found.version)}; `query` and `export` read it"
            )
        return found

    with ThreadPoolExecutor(4, "upgrade") as side_by_side:
        looked = list(side_by_side.map(look, TABLES))
    found = {table: each for table, each in zip(TABLES, looked, strict=True) if each is not None}
    if STATE not in found:
        raise LakeError(f"{lake}: no lake there; `kafka-metadata-history run` makes one")
    note = _Note.of(found[STATE].metadata)
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
    if not each.is_rewritten:
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


def _is_there(spark: SparkSession, lake: Lake, table: Table) -> bool:
    if lake.is_folder:  # Spark takes a tenth of a second to say so.
        return Path(lake.path(table), "_delta_log").is_dir()
    return table_exists(spark, lake, table)


# --- what it does ---


def _begun(spark: SparkSession, lake: Lake, state: Found, now: datetime) -> _Note:
    """Note that the lake is being upgraded, and let the rounds of older programs end."""
    note = _Note.of(state.metadata)
    if note is None or note.done is not None:
        last = lake.read(spark, ROUNDS).agg(F.max("round")).collect()[0][0] or 0
        note = _Note(state.version, now.isoformat(timespec="seconds"), last)
        _configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=note.text))
    # By these rows an older program would take the lake for its own at one look.
    delete_rows(spark, lake, STATE, f"history = '{OF_LAKE}'")
    return note


def _rounds(spark: SparkSession, lake: Lake) -> Rounds:
    """Take over from all programs that make history of the lake: each ends in one line."""
    names = [name for history in HISTORIES for name in history().names]
    return Rounds(spark, lake, names)


def _take_back_rounds(spark: SparkSession, lake: Lake) -> Iterator[str]:
    """Take back the rounds that an older program has planned and not done: this one reads no plan
    of another version.
    """
    found = _found(spark, lake)
    for step in reversed(_rounds(spark, lake).to_finish):
        for table, each in found.items():
            if table in _KEPT or table == STATE:
                continue
            version = version_of(spark, lake, each.table, step.round)
            if version is not None:
                _restore(spark, lake, each.table, version - 1)
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
    # An undo restores the version of this commit, which is new however old the table is: Delta
    # forgets by age.
    held = _configure(spark, lake, source, lambda old, _: old)
    if each.is_moved:
        ensure_tables(spark, lake, [each.table])
        made = partial(_rows, spark, lake, each)
        _configure(spark, lake, each.table, lambda old, _: old, lambda _: made(held))
        marked = {"VERSION": str(LAKE_VERSION)}
        return _configure(
            spark, lake, source, lambda old, at: with_properties(old, BEFORE=str(at), **marked)
        )
    if not each.is_rewritten:
        _check_constraints(spark, lake, each)
    return _configure(
        spark,
        lake,
        source,
        lambda old, at: with_properties(upgraded(each.table, old, at), **properties),
        partial(_rows, spark, lake, each) if each.is_rewritten else None,
    )


def _configure(
    spark: SparkSession, lake: Lake, table: Table, metadata: Any, rows: Any = None
) -> int:
    """`change_delta` of a table, again if somebody else committed first."""
    versions: list[int] = []
    retried(lambda: versions.append(change_delta(spark, lake.identifier(table), metadata, rows)))
    return versions[-1]


def _rows(spark: SparkSession, lake: Lake, each: Change, version: int) -> DataFrame:
    """The rows of a table as they will be, of those in one of its versions."""
    rows = lake.read_version(spark, each.found.table, version)
    for step in each.steps:
        rows = _selected(spark, rows, step.rows.get(each.table.full_name, ()))
    return _fitted(rows, {column.name: column.type for column in each.table.columns})


def _selected(spark: SparkSession, rows: DataFrame, selects: Selects) -> DataFrame:
    made = [spark.sql(select, rows=rows) for select in selects]
    return (
        reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), made)
        if made
        else rows
    )


def _fitted(rows: DataFrame, types: Mapping[str, str]) -> DataFrame:
    """The columns of a table, in its order; null where there is none."""
    return rows.select(
        *(
            (F.col(f"`{name}`") if name in rows.columns else F.lit(None).cast(type_)).alias(name)
            for name, type_ in types.items()
        )
    )


def _check_constraints(spark: SparkSession, lake: Lake, each: Change) -> None:
    for name, check in new_constraints(each).items():
        if not lake.read(spark, each.found.table).where(f"NOT ({check})").isEmpty():
            raise LakeError(
                f"{each.table.full_name} in {lake} has rows that break {name} ({check}): it is not "
                "as a program of its version makes it; nothing of it was changed"
            )


def _check_unwritten(spark: SparkSession, lake: Lake, written: Mapping[Table, int]) -> None:
    """Raise LakeError where somebody has written to a table after its change, or is about to."""
    others = [
        table.full_name
        for table, version in written.items()
        if table not in _KEPT and newest_version(spark, lake, table) != version
    ]
    if others or (open_ := _rounds(spark, lake).to_finish):
        what = ", ".join(others) or f"round {open_[-1].round}"
        raise LakeError(
            f"{lake}: another program wrote {what} meanwhile: end that program, then run {UPGRADE} "
            "again; nothing is lost"
        )


# --- the way back ---


def _until(note: _Note) -> datetime:
    return datetime.fromisoformat(note.done or note.began) + UNDO_WITHIN


def _undone(spark: SparkSession, lake: Lake, now: datetime) -> Iterator[str]:
    if not has_jvm(spark):
        raise LakeError(f"{lake}: {UPGRADE} needs a session of its own, not Spark Connect")
    if not _is_there(spark, lake, STATE):
        raise LakeError(f"{lake}: no lake there; nothing was written")
    state = delta_version(spark, lake.identifier(STATE))
    note = _Note.of(state.metadata)
    if note is None:
        raise LakeError(
            f"{lake}: there is no upgrade to take back: none was made, or seven days have passed "
            "since; nothing was written"
        )
    if note.done is not None and now > _until(note):
        raise LakeError(
            f"{lake} was upgraded at {note.done}, more than seven days ago: what it was is not kept "
            "so long; nothing was written"
        )
    going = replace(note, undo=True)
    _configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=going.text))
    _rounds(spark, lake)
    steps = steps_from(note.version)
    for table in (each for each in TABLES if each != STATE):
        if table.older is not None and _is_there(spark, lake, table.older):
            if (before := _before(spark, lake, table.older)) is not None:
                _restore(spark, lake, table.older, before)
            if _is_there(spark, lake, table):
                _drop(spark, lake, table)
                yield f"{table.older.full_name}: as it was"
        elif _is_there(spark, lake, table) and (before := _before(spark, lake, table)) is not None:
            if table in _KEPT:
                _go_back(spark, lake, table, before, steps)
            else:
                _restore(spark, lake, table, before)
            yield f"{table.full_name}: as it was{', with what came since' if table in _KEPT else ''}"
    spark.sql(
        f"UPDATE {lake.identifier(ROUNDS)} SET step = 'started', takes = NULL "
        f"WHERE step = 'planned' AND round > {note.rounds}"
    )
    if (before := _before(spark, lake, STATE)) is not None:
        _restore(spark, lake, STATE, before)
    _configure(spark, lake, STATE, lambda old, _: with_properties(old, UPGRADE=None))
    yield f"{lake}: version {note.version} again; what was recorded since becomes history again"


def _before(spark: SparkSession, lake: Lake, table: Table) -> int | None:
    version = delta_version(spark, lake.identifier(table))
    return Found(table, version.metadata, version.number).before


def _restore(spark: SparkSession, lake: Lake, table: Table, version: int) -> None:
    spark.sql(f"RESTORE TABLE {lake.identifier(table)} TO VERSION AS OF {version}")


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
            found = _selected(spark, found, each)
        types = lake.read_version(spark, table, before).schema
        return _fitted(found, {each.name: each.dataType.simpleString() for each in types})

    _configure(spark, lake, table, lambda *_: was, rows if selects else None)


def _drop(spark: SparkSession, lake: Lake, table: Table) -> None:
    if lake.root is not None:
        delete_folder(spark, lake.path(table))
    else:
        spark.sql(f"DROP TABLE {lake.identifier(table)}")


_FULL: Final = ("No space left on device", "Disk quota exceeded")


def _explained(lake: Lake, error: Exception) -> Exception:
    """An error in one line that says what to do."""
    if isinstance(error, LakeError):
        return error
    texts = (str(error), java_text(error), *java_causes(error))
    todo = "run it again: it comes to its end where it was broken off"
    if any(each in text for each in _FULL for text in texts):
        todo = "make room, and run it again: it comes to its end where it was broken off"
    return LakeError(f"{lake}: the upgrade was broken off: {one_line(error)}: {todo}")
