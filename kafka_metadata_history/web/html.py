"""A page as HTML: every text of a cluster is escaped by the templates, and names are links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kafka_metadata_history.answers.text import rows_of, together
from kafka_metadata_history.web.page import Rows, address
from metadata_source.text import LONGEST, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_metadata_history.answers.text import Row, Shown
    from kafka_metadata_history.web.page import Page

_HERE: Final = Path(__file__).parent
_PLACES: Final = {
    "cluster": "cluster",
    "topic": "topic",
    "broker_id": "broker",
    "leader": "broker",
    "coordinator": "broker",
    "group_id": "group",
}
"""Column -> the page of what it names."""
_INCIDENTS: Final = ("incident", "incident_id")
_WORDS: Final = ("level", "severity", "state", "worst_level")
"""Columns whose values have a colour beside the word."""
_COUNTS: Final = ("offline", "under_min_isr", "under_min_isr_min", "open_incidents", "fenced")
"""Columns whose numbers have one, unless they are zero."""


@dataclass(frozen=True)
class Cell:
    """`address`: of the page about what it names. `mark`: the name of its colour."""

    text: str
    address: str | None = None
    mark: str = ""
    is_number: bool = False


@dataclass(frozen=True)
class Grid:
    """A table as it is drawn: columns without a value are left out, and named."""

    headings: Sequence[Cell]
    lines: Sequence[Sequence[Cell]]
    left_out: Sequence[str]


def grid(of: Rows, cluster: str | None) -> Grid:
    """Return the cells of a table. `cluster`: that of the page, which its rows need not name."""
    named = {*of.rows["cluster"].to_pylist()} if "cluster" in of.rows.column_names else set()
    table = of.rows.drop_columns(["cluster"]) if named == {cluster} else of.rows
    columns, rows = together(table), list(rows_of(table))
    cells = [[_cell(column, row, cluster) for row in rows] for column in columns]
    kept = [
        (column, each)
        for column, each in zip(columns, cells, strict=True)
        if any(cell.text for cell in each)
    ]
    names = {column.heading for column, _ in kept}
    return Grid(
        [Cell(column.heading, is_number=column.is_number) for column, _ in kept],
        list(zip(*(each for _, each in kept), strict=True)),
        [column.heading for column in columns if column.heading not in names] if rows else [],
    )


def _cell(column: Shown, row: Row, cluster: str | None) -> Cell:
    text = printable(column.cell(row))
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text):,} characters)"
    first = column.names[0]
    return Cell(text, _address(first, row, cluster), _mark(first, row), column.is_number)


def _address(column: str, row: Row, cluster: str | None) -> str | None:
    value, of = row[column], row.get("cluster", cluster)
    if value is None or value == -1:
        return None
    if column in _INCIDENTS:
        return address(f"/incident/{value}", cluster=of)
    if column not in _PLACES or of is None:
        return None
    place = _PLACES[column]
    return address(f"/{place}", cluster=of, **({} if place == "cluster" else {place: value}))


def _mark(column: str, row: Row) -> str:
    value = row[column]
    if column in _WORDS and value is not None:
        return f"is-{value}"
    return f"is-{column.removesuffix('_min')}" if column in _COUNTS and value else ""


def html(page: Page, *, is_open: bool, version: str | None) -> str:
    """Return a page. `is_open`: nobody had to log in. `version`: of the lake that it shows; None:
    the page is not brought up to date.
    """
    return _TEMPLATES.get_template("page.html").render(page=page, is_open=is_open, version=version)


def message(title: str, text: str, version: str | None = None) -> str:
    """Return a page that says one thing. `version`: as of `html`."""
    return _TEMPLATES.get_template("message.html").render(title=title, text=text, version=version)


def login(problem: str, next_: str) -> str:
    """Return the page that asks for the token."""
    return _TEMPLATES.get_template("login.html").render(problem=problem, next=next_)


def _kind(section: object) -> str:
    return type(section).__name__


_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals.update(grid=grid, kind=_kind, address=address)
_TEMPLATES.filters["printable"] = printable
