"""The manifest of an export: what is in it, so that an import knows whether all of it is there."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jobs.rules.memory import from_json, to_json
from metadata_source.text import counted
from schemas.lake import LakeError
from schemas.table import LAKE_VERSION, OLDEST_UPGRADED, Column

NAME = "manifest.json"


@dataclass(frozen=True)
class File:
    """A file of Parquet."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """The content of the files of a table. `types`: by column, as Spark SQL writes them.
    `files`: by name.
    """

    rows: int
    types: Mapping[str, str]
    files: Mapping[str, File]


@dataclass(frozen=True)
class ExportedTable:
    """What an export has of a table, and how the lake had the table: what it takes to make it
    again. `columns`, `files`: by name; a table without rows has no file.
    """

    rows: int
    files: Mapping[str, File]
    comment: str
    columns: Mapping[str, Column]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def contents(self) -> Contents:
        """What must be in its files."""
        types = {name: column.type for name, column in self.columns.items()}
        return Contents(self.rows, types, self.files)


@dataclass(frozen=True)
class Manifest:
    """An export. `id`: no other export has it. `clusters`: alias -> its cluster ids. `tables`: by
    the full name that the lake had for each.
    """

    id: str
    lake_version: int
    clusters: Mapping[str, tuple[str, ...]]
    tables: Mapping[str, ExportedTable]

    @property
    def text(self) -> str:
        """As the file has it."""
        return f"{json.dumps(to_json(self), indent=1)}\n"


def parsed(text: str, place: str) -> Manifest:
    """The manifest of an export in a place. Raises LakeError where the text is none, or is of a
    version that this program cannot read.
    """
    where = f"--from {place}: {NAME}"
    try:
        found = json.loads(text)
        version = int(found["lake_version"])
    except (ValueError, TypeError, KeyError) as error:
        raise LakeError(f"{where} is not that of an export; nothing was written") from error
    if version > LAKE_VERSION:
        raise LakeError(
            f"{where}: the lake had version {version}, newer than this program's {LAKE_VERSION}: "
            "upgrade the program; nothing was written"
        )
    if version < OLDEST_UPGRADED:
        raise LakeError(
            f"{where}: the lake had version {version}, and there is a way from "
            f"{OLDEST_UPGRADED} on alone; nothing was written"
        )
    try:
        manifest: Manifest = from_json(Manifest, found)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LakeError(f"{where} is not that of an export; nothing was written") from error
    return manifest


def check_files(manifest: Manifest, found: Mapping[str, Mapping[str, File]], place: str) -> None:
    """Raise LakeError where other files are there than a manifest says, and name the first."""
    for name, table in manifest.tables.items():
        _refuse(_files(name, table.files, found.get(name, {})), place)


def check(
    manifest: Manifest,
    found: Mapping[str, Contents],
    clusters: Mapping[str, tuple[str, ...]],
    place: str,
) -> None:
    """The same of what is in the files. `clusters`: those that rows are of."""
    for name, table in manifest.tables.items():
        no_files = Contents(0, table.contents.types, {})
        _refuse(_contents(name, table.contents, found.get(name, no_files)), place)
    if manifest.clusters != clusters:
        said, there = (
            ", ".join(sorted(each)) or "no cluster" for each in (manifest.clusters, clusters)
        )
        _refuse([f"there are rows of {there}, and the manifest says {said}"], place)


def _refuse(differences: Iterable[str], place: str) -> None:
    for line in differences:
        raise LakeError(f"--from {place}: {line}; nothing was written: export the lake again")


def _files(name: str, said: Mapping[str, File], found: Mapping[str, File]) -> Iterator[str]:
    for file in sorted(said.keys() | found.keys()):
        if file not in found:
            yield f"{name}/{file} is not there"
        elif file not in said:
            yield f"{name}/{file} is not in the manifest"
        elif said[file].bytes != found[file].bytes:
            yield f"{name}/{file} has {found[file].bytes} bytes, not {said[file].bytes}"
        elif said[file] != found[file]:
            yield f"{name}/{file} has another checksum than the manifest says"


def _contents(name: str, said: Contents, found: Contents) -> Iterator[str]:
    odd = sorted({*said.types.items()} ^ {*found.types.items()})
    if odd:
        yield f"{name} has other columns than the manifest says: {odd[0][0]}"
    if said.rows != found.rows:
        yield f"{name} has {counted(found.rows, 'row')}, not {said.rows}"
