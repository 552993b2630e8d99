"""A page as data: sections of rows, of facts, of text and of figures, without HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

from kafka_metadata_history.answers.questions import FILTERS
from kafka_metadata_history.answers.text import plain_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.asking import Asked

Given: TypeAlias = "Mapping[str, str]"
"""Parameters of a page's address, by name, without empty ones."""


@dataclass(frozen=True)
class Asking:
    """The parts that a page is made of. `lake`: opens one version of it, the same each time."""

    lake: Callable[[], Asked]
    config: Config
    given: Given
    now: datetime

    def ask(self, sql: str) -> pa.Table:
        """Answer our own SQL."""
        return self.lake().ask(sql)


@dataclass(frozen=True)
class Rows:
    """A table. `about`: what its rows are; `empty`: what it means that there are none; `lines`:
    what is not known; `more`: the address of all rows, if these are a part of them.
    """

    name: str
    title: str
    rows: pa.Table
    about: str = ""
    empty: str = "None."
    lines: Sequence[str] = ()
    more: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return rows as JSON has them, and the lines beside them."""
        beside = {"about": self.about, "lines": list(self.lines), "more": self.more}
        return {"rows": list(plain_rows(self.rows)), **beside}


@dataclass(frozen=True)
class Text:
    """Text with lines of its own, for people."""

    name: str
    title: str
    text: str

    def to_json(self) -> str:
        """Return the text."""
        return self.text


@dataclass(frozen=True)
class Figures:
    """The report's figures of a window, which have a page of their own. `address`: of that."""

    name: str
    title: str
    address: str

    def to_json(self) -> str:
        """Return the address."""
        return self.address


@dataclass(frozen=True)
class Slider:
    """The times at which something happened, to step on. `at`: the one that is shown; None: now.
    `here`: the page's parameters without the time.
    """

    name: str
    times: Sequence[str]
    at: str | None
    here: Given

    def to_json(self) -> dict[str, Any]:
        """Return the times."""
        return {"times": list(self.times), "at": self.at}


@dataclass(frozen=True)
class Field:
    """A field of a form. `choices`: None takes any text."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: Sequence[str] | None = None
    is_long: bool = False


@dataclass(frozen=True)
class Form:
    """A form whose fields are parameters of an address. `by_post`: they do not fit into one."""

    name: str
    title: str
    action: str
    fields: Sequence[Field]
    button: str = "Show"
    about: str = ""
    by_post: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the names of the fields, and what they take."""
        return {each.name: each.hint or each.label for each in self.fields}


@dataclass(frozen=True)
class Link:
    """A link to another page."""

    text: str
    address: str
    about: str = ""


@dataclass(frozen=True)
class Links:
    """Links, below a title."""

    name: str
    title: str
    links: Sequence[Link]

    def to_json(self) -> list[dict[str, str]]:
        """Return each link."""
        return [
            {"text": each.text, "address": each.address, "about": each.about} for each in self.links
        ]


Section: TypeAlias = Rows | Text | Figures | Slider | Form | Links


@dataclass(frozen=True)
class Page:
    """`path`: its address without parameters. `cluster`: names in its rows are of this one.
    `lines`: of when it is, and what is not known.
    """

    title: str
    path: str
    sections: Sequence[Section]
    cluster: str | None = None
    lines: Sequence[str] = ()
    links: Sequence[Link] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Return all of the page as JSON has it, a key for each section."""
        return {
            "title": self.title,
            "cluster": self.cluster,
            "lines": list(self.lines),
            **{each.name: each.to_json() for each in self.sections},
        }


def address(path: str, **given: object) -> str:
    """Return an address with the parameters that are not None."""
    some = {name: str(value) for name, value in given.items() if value is not None}
    return f"{path}?{urlencode(some)}" if some else path


def is_broker_id(text: str) -> bool:
    """Whether that may be a broker's id: a 32-bit number."""
    return text.isdecimal() and len(text) <= len("2147483647")


def filters_in(given: Given, *names: str) -> dict[str, object]:
    """Return those parameters that narrow questions, as `question` takes them."""
    wanted = names or tuple(FILTERS)
    return {
        name: int(value) if name == "broker" and is_broker_id(value) else value
        for name, value in given.items()
        if name in wanted
    }
