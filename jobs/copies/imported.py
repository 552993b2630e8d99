"""The history of clusters out of an export, appended to a lake that has none of them, as one round
of all histories: planned, one commit a table, done.

From its plan on no other round is made, and until it is done nobody reads the lake. If a kill comes
in between, the same import makes the rest: Delta passes over tables that have the round.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from jobs.configuration.config import Config
from jobs.copies.manifest import NAME, Manifest, check, check_files, parsed
from jobs.copies.older import of_this_version
from jobs.copies.parquet import (
    ALIAS,
    ID,
    contents_of,
    files_of,
    folder_of,
    is_of_clusters,
)
from jobs.histories import HISTORIES
from jobs.rounds.commit import Commit, append_rows, delete_rows
from jobs.rounds.plan import (
    Rounds,
    State,
    States,
    Step,
    kept_since,
    newest_states,
    states_of,
    with_rows,
)
from jobs.run.side_by_side import side_by_side
from jobs.upkeep.changing import take_over
from jobs.upkeep.expiry import note
from metadata_source.text import counted
from schemas.imports import COLUMNS, IMPORT, Import, half, not_whole
from schemas.in_spark import check_tables, ensure_lake, simple_type
from schemas.internal import STATE, retention_of
from schemas.lake import TABLES, Lake, LakeError
from schemas.table import LAKE_VERSION, Table, sql_string

Frames = Mapping[Table, DataFrame]
"""The rows of an export, by the tables of this version."""


def imported(spark: SparkSession, config: Config, place: str) -> Iterator[str]:
    """Append what is exported in a place to the lake of a configuration, and yield a line for each
    table.

    Raises LakeError, before anything is written, for a place that holds no whole export or one of
    another version, and for a lake that has one of its clusters, or a round that is not done.
    """
    manifest = _checked(spark, place)
    lake = config.lake
    ensure_lake(spark, lake)
    if not _is_begun(spark, lake, manifest):
        _check_absent(spark, lake, manifest.clusters)
    with of_this_version(spark, config, manifest, place) as frames:
        rounds, step = _begun(spark, lake, manifest, place)
        rows = {
            table: of_table.select(*table.column_names)
            for table, of_table in frames.items()
            if is_of_clusters(of_table)
        }
        states = newest_states(rows.pop(STATE)) if STATE in rows else {}
        commits = [Commit(table, of_table) for table, of_table in rows.items()]
        side_by_side(lambda each: each.write(lake, step.round, replacing=True), commits)
        own = states_of(spark, lake)
        _keep_retention(spark, lake, own, states)
        rounds.done(step, _joined(own, states, rows, step).values(), rows)
    names = ", ".join(sorted(manifest.clusters))
    total = sum(each.rows for each in manifest.tables.values())
    yield f"{lake}: round {step.round} imported {names}: {counted(total, 'row')} of {place}"


def _checked(spark: SparkSession, place: str) -> Manifest:
    """The manifest of an export of which all is there, as it says."""
    folder = folder_of(spark, place)
    if not folder.has(NAME):
        raise LakeError(
            f"--from {place}: no {NAME} is there, so it is no export, or not a whole one; nothing "
            "was written"
        )
    if (text := folder.text(NAME)) is None:
        raise LakeError(
            f"--from {place}: {NAME} has other bytes than were written; nothing was written: "
            "export the lake again"
        )
    manifest = parsed(text, place)
    files = files_of(spark, place, manifest.tables)
    check_files(manifest, files, place)
    found, clusters = contents_of(spark, place, files)
    check(manifest, found, clusters, place)
    if manifest.lake_version == LAKE_VERSION:
        _check_tables(manifest, place)
    return manifest


def _check_tables(manifest: Manifest, place: str) -> None:
    """Raise LakeError for tables that are not those of this version."""
    tables = {table.full_name: table for table in TABLES}
    for name, found in manifest.tables.items():
        columns = tables[name].columns if name in tables else ()
        types = {column.name: simple_type(column.type) for column in columns}
        if types != found.contents.types:
            raise LakeError(
                f"--from {place}: {name} is not that of a lake of version {LAKE_VERSION}; nothing "
                "was written"
            )


def _half(spark: SparkSession, lake: Lake) -> dict[str, Import]:
    rows = lake.read(spark, STATE).where(f"history = '{IMPORT}'").select(*COLUMNS).collect()
    return half(rows)


def _is_begun(spark: SparkSession, lake: Lake, manifest: Manifest) -> bool:
    """Whether the lake has a part of this import. Raises LakeError if it has one of another."""
    begun = _half(spark, lake)
    for each in begun.values():
        if each.export != manifest.id:
            raise not_whole(lake, begun, each.place)
    return bool(begun)


def _check_absent(spark: SparkSession, lake: Lake, clusters: Mapping[str, tuple[str, ...]]) -> None:
    """Raise LakeError if a table has a row of one of these clusters, by its alias or its id."""
    aliases = ", ".join(map(sql_string, clusters))
    ids = ", ".join(sql_string(each) for of_alias in clusters.values() for each in of_alias)
    condition = f"{ALIAS} IN ({aliases})" + (f" OR {ID} IN ({ids})" if ids else "")
    of_tables = [
        lake.read(spark, table).where(condition).select(ALIAS, ID).limit(1)
        for table in TABLES
        if {ALIAS, ID} <= {*table.column_names}
    ]
    found = reduce(DataFrame.union, of_tables).limit(1).collect()
    for alias, id_ in found:
        raise LakeError(
            f"{lake} has the cluster {alias} ({id_ or 'its id is not known'}) already; nothing was "
            "written: import into another lake"
        )


def _begun(spark: SparkSession, lake: Lake, manifest: Manifest, place: str) -> tuple[Rounds, Step]:
    """The round of an import, planned now, or by a run before that was killed."""
    rounds, step = _taken_over(spark, lake, manifest.id)
    clusters = sorted(manifest.clusters)
    if step is None:
        takes = {"export": manifest.id, "place": place, "clusters": clusters}
        step = rounds.plan({IMPORT: takes}, datetime.now(UTC))
    # Whoever reads the lake sees these before any other row.
    begins = Import(manifest.id, place, is_whole=False)
    append_rows(spark, lake, STATE, [_row(alias, begins) for alias in clusters])
    return rounds, step


def _taken_over(spark: SparkSession, lake: Lake, export: str) -> tuple[Rounds, Step | None]:
    """The rounds of all histories, of which nobody else makes any from now on, and that of the
    import of an export if it has not ended. Raises LakeError if another round is not done.
    """
    rounds = take_over(spark, lake, IMPORT)
    for step in rounds.to_finish:
        if step.takes.get(IMPORT, {}).get("export") != export:
            raise LakeError(
                f"{lake}: round {step.round} is planned and not done: end the run that makes it, "
                "or let `kafka-metadata-history run --once` finish it; nothing was written"
            )
    return rounds, next(iter(rounds.to_finish), None)


def undone(spark: SparkSession, lake: Lake) -> Iterator[str]:
    """Delete the clusters of an import that has not ended, and yield a line. It can be done again
    after a kill. Raises LakeError if there is no such import.
    """
    check_tables(spark, lake, TABLES)
    begun = _half(spark, lake)
    if not begun:
        raise LakeError(f"{lake}: each import has ended; nothing was written")
    rounds, step = _taken_over(spark, lake, next(iter(begun.values())).export)
    of_them = f"{ALIAS} IN ({', '.join(map(sql_string, begun))})"
    side_by_side(
        lambda table: delete_rows(spark, lake, table, of_them),
        [table for table in TABLES if {ALIAS, ID} <= {*table.column_names} and table != STATE],
    )
    if step is not None:
        none = dict.fromkeys(STATE.column_names) | {"history": IMPORT, "cluster": ""}
        own = with_rows(states_of(spark, lake), [none | {"round": step.round}])
        rounds.done(step, own.values())
    delete_rows(spark, lake, STATE, f"history = '{IMPORT}' AND {of_them}")
    yield f"{lake}: the import of {', '.join(sorted(begun))} is taken back"


def _keep_retention(spark: SparkSession, lake: Lake, own: States, other: States) -> None:
    """Say from when on tables are whole, if those of the other lake are only from later on."""
    named = retention_of("")
    for schema in (name.removeprefix(named) for name, _ in other if name.startswith(named)):
        since, before = kept_since(other, schema), kept_since(own, schema)
        if since is not None and (before is None or before < since):
            note(spark, lake, retention_of(schema), since)


def _joined(own: States, other: States, rows: Frames, step: Step) -> States:
    """The states of a lake once it has clusters of another one. What that says of the lake itself,
    or of a cluster that a history leaves out there, is none of these.
    """
    known = step.histories.union(*HISTORIES[0].other_states.values())
    told = [row for (history, cluster), row in other.items() if cluster and history in known]
    told += [row for history in HISTORIES for row in history.joined(own, other, rows)]
    takes = step.takes[IMPORT]
    ends = Import(takes["export"], takes["place"], is_whole=True)
    told += [_row(alias, ends) for alias in takes["clusters"]]
    return with_rows(own, [row | {"round": step.round} for row in told])


def _row(alias: str, of: Import) -> State:
    row = dict.fromkeys(STATE.column_names) | {"history": IMPORT, "cluster": alias}
    return row | {"round": 0, "memory": of.text}
