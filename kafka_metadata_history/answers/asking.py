"""A lake that is asked, and an answer in rows: the same for commands, Python and agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafka_metadata_history.answers.questions import FREE, LINES, check_filters, name_of, reach
from schemas.lake import LakeError
from schemas.table import LAKE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from kafka_metadata_history.answers.questions import Ask, Question


class Asked(Protocol):
    """A lake that answers."""

    @property
    def ask(self) -> Ask:
        """Our own SQL."""
        ...

    @property
    def own(self) -> Ask:
        """SQL that a person wrote."""
        ...

    @property
    def older(self) -> Callable[[], int | None]:
        """Its version, if that is older than this program's, by the tables that were asked."""
        ...


@dataclass(frozen=True)
class Answer:
    """Rows, and what is said beside them, asked when it is needed. `clusters`: those that they are
    of; empty: of all.
    """

    rows: pa.Table
    lines: Callable[[], list[str]]
    clusters: frozenset[str] = frozenset()


def answered(lake: Asked, of: Question, most_gaps: int | None = LINES) -> Answer:
    """Answer a question. `most_gaps`: as `reach` takes it. Raises QueryError for a filter whose
    value history does not know, LakeError for a lake that cannot be read.
    """
    check_filters(of.filters, lake.ask)
    is_free = name_of(of.query) == FREE
    rows = (lake.own if is_free else lake.ask)(of.sql)
    named = () if is_free or "cluster" not in of.filters else (str(of.filters["cluster"]),)
    return Answer(rows, lambda: reach(of, lake.ask, most_gaps), frozenset(named))


def beside(lake: Asked, known: Callable[[], list[str]]) -> list[str]:
    """The lines of `known`, as far as the lake has them, and one that says its version if that is
    an older one.
    """
    version = lake.older()
    if version is None:
        return known()
    note = (
        f"the lake is of version {version}, older than this program's {LAKE_VERSION}: columns may "
        "mean other things"
    )
    try:
        return [note, *known()]
    except LakeError:
        return [note]
