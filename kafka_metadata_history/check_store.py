"""Whether the object store of a lake lets this machine read it, for the command check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.internal import STATE
from schemas.lake import LakeError, version_of
from schemas.open_tables import OpenTables, list_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.lake import Lake


@dataclass(frozen=True)
class CheckedStore:
    """The lines to print. `is_good`: whether the store gives the lake, or has none yet."""

    lines: Sequence[str]
    is_good: bool


def checked_store(lake: Lake) -> CheckedStore:
    """List the place of a lake in an object store, and read one table, if it is there. Writes
    nothing.
    """
    found: list[str] = []
    try:
        list_place(lake)
        found.append(f"lake {lake}: can be listed")
        tables = OpenTables(lake)
        opened = tables.get(STATE)
        if opened is None:
            text = "no lake is there to be read; `kafka-metadata-history run` makes one"
        else:
            version = version_of(opened.log.metadata().configuration, lake, STATE)
            text = f"can be read; a lake of version {version} is there"
    except LakeError as error:
        return CheckedStore([*found, f"lake {error}"], is_good=False)
    return CheckedStore([*found, f"lake {lake}: {text}"], is_good=True)
