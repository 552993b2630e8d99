"""Marks: what figures draw, with the rows behind. Made of answers to `queries.query_of`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafka_metadata_history.report.moments import day_of, ms
from kafka_metadata_history.report.styles import STYLES, style_of
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka_metadata_history.report.queries import Section

LONGEST: Final = 300
"""Characters of a text in the page: names of groups and clients may be as long as a record."""


@dataclass(frozen=True)
class Window:
    """The window, in milliseconds since 1970; `known_until`: history reaches no further."""

    since: float
    until: float
    known_until: float

    @property
    def day(self) -> str:
        """The date that all its times have, else an empty text."""
        return day_of(self.since, self.until)

    def clip(self, at: float) -> float:
        """Return a time, or the end of the window that is nearer to it."""
        return min(max(at, self.since), self.until)


@dataclass(frozen=True)
class MarkRow:
    """A row behind a mark. Times are bounds, in milliseconds since 1970; None: unknown or open."""

    table: str
    kind: str
    subject: str
    began: tuple[float | None, float | None]
    ended: tuple[float | None, float | None]
    details: str
    inferred: str


@dataclass
class Mark:
    """One bar or shape. It surely lasted from `sure_from` to `sure_until`, and at most from
    `maybe_from` to `maybe_until`, all within the window. `lane_number`: 0 at the top.
    `rows`: how many it sums up.
    """

    lane_number: int
    lane: str
    kind: str
    rows: int
    size: int
    began: tuple[float | None, float | None]
    ended: tuple[float | None, float | None]
    maybe_from: float
    sure_from: float
    sure_until: float
    maybe_until: float
    behind: list[MarkRow] = field(default_factory=list)


@dataclass(frozen=True)
class DrawnSection:
    """A section as it is drawn. `rows`, `counted`, `lanes_all`: how many there are with those left
    out; `counted` counts no rows that are only beside the others (storms, brokers that came or
    went).
    """

    section: Section
    lanes: Sequence[str]
    marks: Sequence[Mark]
    rows: int = 0
    counted: int = 0
    lanes_all: int = 0
    missing: str | None = None
    """Why nothing is known of this section, in one line; else None."""

    @property
    def left_out(self) -> int:
        """Rows that no mark sums up."""
        return self.rows - sum(mark.rows for mark in self.marks)


def shown(value: object) -> str:
    """Return a value of an answer as a printable text, cut where it is too long."""
    text = "" if value is None else printable(str(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def mark_row(row: Mapping[str, Any], table: str) -> MarkRow:
    """Return the row of an answer as one behind a mark."""
    return MarkRow(
        table,
        shown(row["kind"]),
        shown(row["subject"]),
        (ms(row["began_after"]), ms(row["began_before"])),
        (ms(row["ended_after"]), ms(row["ended_before"])),
        shown(row["details"]),
        shown(row["inferred"]),
    )


def drawn_section(
    section: Section,
    rows: Sequence[Mapping[str, Any]],
    departures: Iterable[Mapping[str, Any]],
    window: Window,
) -> DrawnSection:
    """Return a section as it is drawn. `rows`: answers to `queries.query_of`; `departures`: more
    rows behind, by `incident`, the id of a row.
    """
    if not rows:
        return DrawnSection(section, (), ())
    marks: dict[int, Mark] = {}
    mark_of: dict[str, Mark] = {}
    for row in rows:
        mark = marks.setdefault(int(row["mark"]), _mark(section, row, window))
        mark_of[str(row["id"])] = mark
        mark.behind.append(mark_row(row, section.table))
    for row in departures:
        if (found := mark_of.get(str(row["incident"]))) is not None:
            found.behind.append(mark_row(row, "gold.isr_changes"))
    # Lanes whose marks were all left out are no lanes of the figure.
    numbers = sorted({mark.lane_number for mark in marks.values()})
    lanes = {mark.lane_number: mark.lane for mark in marks.values()}
    for mark in marks.values():
        mark.lane_number = numbers.index(mark.lane_number)
    first = rows[0]
    return DrawnSection(
        section,
        tuple(lanes[number] for number in numbers),
        tuple(sorted(marks.values(), key=lambda mark: _order(section, mark.kind))),
        int(first["rows_all"]),
        int(first["counted_all"]),
        int(first["lanes_all"]),
    )


def _mark(section: Section, row: Mapping[str, Any], window: Window) -> Mark:
    kind = shown(row["kind"])
    after, first, last = (
        ms(row["mark_began_after"]),
        ms(row["mark_began_before"]),
        ms(row["mark_last_before"]),
    )
    assert first is not None  # noqa: S101 - never null in gold
    assert last is not None  # noqa: S101
    lasts = style_of(section.name, kind).lasts
    ended = (ms(row["mark_ended_after"]), ms(row["mark_ended_before"]))
    sure_from = window.clip(first if lasts else last)
    sure_until = maybe_until = sure_from
    if lasts:
        # A thing that lasts is sure up to the last poll, and may last to the end of the window.
        ended_after = window.known_until if ended[1] is None else ended[0]
        sure_until = max(sure_from, window.clip(first if ended_after is None else ended_after))
        maybe_until = max(sure_until, window.until if ended[1] is None else window.clip(ended[1]))
    return Mark(
        lane_number=int(row["lane_number"]),
        lane=shown(row["lane"]),
        kind=kind,
        rows=int(row["mark_rows"]),
        size=int(row["mark_size"] or 0),
        began=(after, first if lasts else last),
        ended=ended,
        maybe_from=min(sure_from, window.since if after is None else window.clip(after)),
        sure_from=sure_from,
        sure_until=sure_until,
        maybe_until=maybe_until,
    )


def _order(section: Section, kind: str) -> int:
    kinds = [*STYLES[section.name]]
    return kinds.index(kind) if kind in kinds else len(kinds)
