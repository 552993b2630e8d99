"""Where the history of an imported cluster came from, as internal.states keeps it.

The row of the beginning is written before the first row of the cluster, the one of the end last of
all: whoever reads a lake in between is refused.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass

from schemas.lake import Lake, LakeError

IMPORT = "import"
"""The history of these rows, and the name of an import in the plan of its round."""


@dataclass(frozen=True)
class Import:
    """Where the history of a cluster came from. `export`: the id of its manifest. `place`: where
    that is. `is_whole`: all of it is in the lake.
    """

    export: str
    place: str
    is_whole: bool

    @property
    def text(self) -> str:
        """As the column `memory` has it."""
        return json.dumps(asdict(self))


Row = tuple[str, int, str | None]
"""Alias, round and memory of a row of IMPORT. Memory is null where an import was taken back."""
COLUMNS = ("cluster", "round", "memory")


def newest(rows: Iterable[Row]) -> dict[str, Import]:
    """The imports of each alias that count, of rows of internal.states."""
    return {
        cluster: Import(**json.loads(memory))
        for cluster, _, memory in sorted(rows, key=lambda row: row[1])
        if memory is not None
    }


def half(rows: Iterable[Row]) -> dict[str, Import]:
    """The imports that were begun and have not ended, by alias."""
    return {cluster: each for cluster, each in newest(rows).items() if not each.is_whole}


def check_imports(lake: Lake, rows: Iterable[Row]) -> None:
    """Raise LakeError if an import was begun and has not ended."""
    if begun := half(rows):
        raise not_whole(lake, begun, next(iter(begun.values())).place)


def not_whole(lake: Lake, clusters: Collection[str], place: str) -> LakeError:
    """Say that an import has not ended, and what to do."""
    return LakeError(
        f"{lake}: the import of {', '.join(sorted(clusters))} has not ended: run "
        f"`kafka-metadata-history import --from {place}` again, or `import --undo`"
    )
