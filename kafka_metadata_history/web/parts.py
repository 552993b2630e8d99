"""Parts that pages share: the window of a page, what named questions answer of it, forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.asof.read import reaches
from kafka_metadata_history.answers.questions import (
    QueryError,
    about,
    filters_of,
    moment,
    one_of,
    question,
    reach,
)
from kafka_metadata_history.answers.whatif.read import LOST
from kafka_metadata_history.web.page import Field, Figures, Form, Link, Rows, Slider, address
from schemas.lake import OlderLakeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_metadata_history.answers.asof.read import Reach
    from kafka_metadata_history.answers.questions import Question
    from kafka_metadata_history.web.page import Asking

MOST: Final = 200
"""Rows of a table; all of them are a question's."""
EVENTS: Final = 50
"""Of a timeline; all of them are a question's."""
STEPS: Final = 300
"""Of a slider: the newest."""
DAY: Final = "1 day"
TIME: Final = "a time in ISO form, or how long ago"
_NOTHING: Final = "Nothing in this window, as far as it is known."
_OLDER: Final = "Not known."


@dataclass(frozen=True)
class Window:
    """From when to when a page shows events, in ISO form. `own`: what it is about, as questions are
    narrowed.
    """

    of: Asking
    since: str
    until: str
    own: Mapping[str, object]

    def asked(self, name: str, **more: object) -> tuple[Question, str]:
        """Return a named question about this window, and its address. What does not narrow the
        question is left out. Whoever makes the page has looked whether history knows the names.
        """
        given = {**self.own, **more}
        narrowing = {key: value for key, value in given.items() if key in filters_of(name)}
        where = address(f"/ask/{name}", since=self.since, until=self.until, **narrowing)
        return question(name, self.since, self.until, narrowing, self.of.now), where

    def rows(self, name: str, title: str | None = None, **more: object) -> Rows:
        """Return the first rows of a named question as a section; without rows, and with a line
        that says why, if the lake is older than the tables that it asks.
        """
        asked, where = self.asked(name, **more)
        title = title or about(name)[0]
        try:
            rows = self.of.ask(asked.sql)
        except OlderLakeError as error:
            return Rows(name, title, pa.table({}), empty=_OLDER, lines=[str(error)])
        return Rows(name, title, rows.slice(0, MOST), part(len(rows)), _NOTHING, more=where)

    def figures(self) -> Figures:
        """Return the section with the report's figures."""
        given = address("/figures", since=self.since, until=self.until, **self.own)
        return Figures("figures", "Figures", given)


@dataclass(frozen=True)
class Timeline:
    """The events of a window, in order. `lines`: from when to when history is known."""

    events: pa.Table
    lines: list[str]
    where: str

    @classmethod
    def of(cls, window: Window) -> Timeline:
        """Ask for it."""
        asked, where = window.asked("timeline")
        ask = window.of.ask
        return cls(ask(asked.sql), reach(asked, ask, 1), where)

    def section(self, title: str = "Timeline") -> Rows:
        """Return the newest events, from the last one on."""
        about_it = f"The newest first. {part(len(self.events), EVENTS)}"
        return Rows("timeline", title, newest(self.events), about_it, _NOTHING, more=self.where)

    def slider(self, of: Asking, known: Sequence[Reach]) -> Slider:
        """Return a slider that steps on the events of which the record has the state."""
        times = sorted({*self.events["began_before"].to_pylist()} - {None})
        of_record = [each for each in times if any(one.has(each) for one in known)]
        here = {name: value for name, value in of.given.items() if name != "at"}
        steps = [each.isoformat() for each in of_record[-STEPS:]]
        return Slider("at", steps, of.given.get("at"), here)


def window_of(of: Asking, known: Sequence[Reach], since: str, own: Mapping[str, object]) -> Window:
    """Return the window of a page: the end of the record and so long before, unless it is given."""
    end = max((each.until for each in known if each.until is not None), default=of.now)
    until = moment(of.given["until"], of.now) if "until" in of.given else end
    begin = moment(of.given.get("since", since), until)
    return Window(of, begin.isoformat(), until.isoformat(), own)


def cluster_of(of: Asking) -> str:
    """Return the cluster that is given, or the only one. Raises QueryError for another, or for
    none.
    """
    names = [each.cluster for each in reaches(of.ask, None)]
    return one_of(names, of.given.get("cluster"), "history")


def required(of: Asking, name: str) -> str:
    """Return a parameter that the address has to have. Raises QueryError."""
    if name not in of.given:
        raise QueryError(f"the address lacks {name}=")
    return of.given[name]


def newest(rows: pa.Table) -> pa.Table:
    """Return the last rows, from the last one on."""
    return rows.take(pa.array(range(len(rows) - 1, max(len(rows) - EVENTS, 0) - 1, -1), pa.int64()))


def part(rows: int, most: int = MOST) -> str:
    """Return the sentence that says how many of them are shown; empty if all are."""
    return f"{most} of {rows:,} are shown." if rows > most else ""


def link_to(cluster: str) -> Link:
    """Return a link to the page of a cluster."""
    return Link(cluster, address("/cluster", cluster=cluster))


def form_of_times(cluster: str, given: Mapping[str, str]) -> Form:
    """Return the form that asks for the differences between two times."""
    fields = [
        Field("cluster", "Cluster", cluster),
        Field("from", "From", given.get("from", DAY), TIME),
        Field("to", "To", given.get("to", ""), "empty: the newest state"),
        *(
            Field(each, each.capitalize(), given.get(each, ""), f"this {each} alone")
            for each in ("topic", "broker", "group")
        ),
    ]
    return Form("difference_form", "Differences between two times", "/diff", fields)


def form_of_loss(cluster: str, given: Mapping[str, str]) -> Form:
    """Return the form that asks for the effects of a loss."""
    fields = [
        Field("cluster", "Cluster", cluster),
        Field("kind", "Lose", given.get("kind", LOST[0]), choices=LOST),
        Field("lose", "Its id or name", given.get("lose", ""), "ids: 1 or 1,2; a rack's name"),
        Field("at", "At", given.get("at", ""), "empty: the newest state"),
    ]
    return Form("whatif_form", "The effects of a loss", "/whatif", fields)
