"""A lake for Python: what `kafka_metadata_history.open` returns. It asks what the commands ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import pyarrow as pa

from jobs.configuration.config import load
from kafka_metadata_history.answers.asking import answered, beside
from kafka_metadata_history.answers.asof.asked import Comparison, Thing, difference, state
from kafka_metadata_history.answers.incidents.read import read_events, read_recorded
from kafka_metadata_history.answers.incidents.records import Event
from kafka_metadata_history.answers.questions import (
    LINES,
    QueryError,
    check_filters,
    filters_of,
    moment,
    question,
    reach,
    shown,
)
from kafka_metadata_history.answers.whatif.written import as_json, as_text
from kafka_metadata_history.explained import explained
from kafka_metadata_history.live import LiveLake
from kafka_metadata_history.opened import Opened, asking, needs_no_spark, opened
from kafka_metadata_history.recorded import without
from kafka_metadata_history.report.queries import CLUSTERS, SECTIONS
from metadata_source.text import did_you_mean, printable
from schemas.incidents import EVENTS
from schemas.lake import Lake, LakeError
from schemas.table import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobs.configuration.config import Config
    from jobs.configuration.spark import SparkSection
    from kafka_metadata_history.answers.asking import Asked
    from kafka_metadata_history.report.make import Report

When = str | datetime
"""A time, in ISO form (UTC unless it says otherwise) or not, or how long ago ("2 hours")."""
DAY: Final = "1 day"
_NARROWING: Final = ("cluster", "topic", "broker", "group")
_TYPES: Final = {each.name: arrow_type(each.type) for each in EVENTS.columns}
_EVENT: Final = pa.schema([(each, _TYPES[each]) for each in Event.__dataclass_fields__])


@dataclass(frozen=True, repr=False)
class Text:
    """Sentences; a notebook shows `markdown`. `data`: the same, as the command's JSON has it."""

    text: str
    markdown: str
    data: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.markdown


@dataclass(frozen=True)
class LakeReader:
    """A lake, read only. Each call asks the newest commit of a lake in a folder; of all others
    Spark reads what it does. `config`: None: of none.

    All times as `When` has them. Each call raises QueryError for what cannot be asked so, LakeError
    for a lake that cannot be read: what the commands say in one line.
    """

    lake: Lake
    config: Config | None
    now: Callable[[], Asked]

    def query(
        self, query: str, *, since: When = DAY, until: When | None = None, **filters: object
    ) -> pa.Table:
        """Answer a named question, or SQL, in which `:since`, `:until` and the filters are values.
        `filters`: what narrows the question, as `group="billing"`.
        """
        of = question(query, _text(since), _text(until), filters, datetime.now(UTC))
        return answered(self.now(), of).rows

    def reach(
        self, *, since: When = DAY, until: When | None = None, cluster: str | None = None
    ) -> list[str]:
        """Say from when to when history is known, and when nobody looked in a window."""
        lake, given = self.now(), {"cluster": cluster}
        of = question("timeline", _text(since), _text(until), given, datetime.now(UTC))
        return beside(lake, lambda: reach(of, lake.ask))

    def explain(self, incident: str | None = None, *, cluster: str | None = None) -> Text:
        """Say which incidents are open, or explain one by the beginning of its id."""
        say = explained(self.now().ask, self.config, incident, cluster, now=datetime.now(UTC))
        return Text(say("text"), say("md"), json.loads(say("json")))

    def show(
        self,
        *,
        at: When | None = None,
        cluster: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
        group: str | None = None,
    ) -> pa.Table:
        """Return the state of clusters, or of one topic, broker or group, at a time; None: now."""
        of = Thing(topic, broker, group)
        return state(self.now().ask, _text(at), cluster, of, datetime.now(UTC)).rows

    def diff(
        self,
        t1: When | None = None,
        t2: When | None = None,
        *,
        cluster: str | None = None,
        topic: str | None = None,
        broker: int | None = None,
        group: str | None = None,
        clusters: tuple[str, str] | None = None,
        at: When | None = None,
    ) -> pa.Table:
        """Return what differs between two times, the second one unless given the newest state; or
        with `clusters` between the settings of two, at a time.
        """
        times = [_text(each) for each in (t1, t2) if each is not None]
        of = Comparison(times, clusters, _text(at), cluster, Thing(topic, broker, group))
        return difference(self.now().ask, of, datetime.now(UTC), is_folded=False).rows

    def whatif(
        self,
        lose: Mapping[str, int | str | Iterable[int | str]],
        *,
        at: When | None = None,
        cluster: str | None = None,
        controller_racks: Mapping[int, str] | None = None,
    ) -> Text:
        """Say what a loss would do. `lose`: "broker", "controller" (ids) or "rack" (names) ->
        one or several.
        """
        now = datetime.now(UTC)
        racks = controller_racks or {}
        lost = [(what, str(each)) for what, of in lose.items() for each in _several(of)]
        found, record = without(
            self.now(), self.config, lost, cluster, _text(at), now=now, controller_racks=racks
        )
        text = as_text(found, record, now)
        indented = "".join(f"    {line}\n" for line in text.splitlines())
        return Text(text, indented, json.loads(as_json(found, record, now)))

    def window(self, since: When = DAY, until: When | None = None, **filters: object) -> LakeWindow:
        """Choose a window of one cluster's history, to ask several questions about it. `filters`:
        cluster (None: the one to which most happened), topic, broker, group.
        """
        now = datetime.now(UTC)
        end = now if until is None else moment(_text(until), now)
        return _window(self, moment(_text(since), end), end, filters)

    def events(self, since: When = DAY, *, cluster: str | None = None) -> pa.Table:
        """Return what happened to incidents and is known since then, in the order in which it was
        known.
        """
        ask = self.now().ask
        read_recorded(ask, cluster)
        found = read_events(ask, moment(_text(since), datetime.now(UTC)), cluster)
        return pa.Table.from_pylist([asdict(each) for each in found], schema=_EVENT)

    def figures(
        self,
        since: When = DAY,
        until: When | None = None,
        *,
        sections: Sequence[str] = (),
        **filters: object,
    ) -> Report:
        """Draw the figures of the report, which a notebook shows; `.html` is a page that loads
        nothing. `sections`: these alone, in this order. `filters`: cluster (None: the one to which
        most happened), topic, broker, group.
        """
        from kafka_metadata_history.report.make import make_report  # noqa: PLC0415 - takes a second

        named = {each.name: each for each in SECTIONS}
        if unknown := [each for each in sections if each not in named]:
            hint = did_you_mean(unknown[0], named, f"there are {', '.join(named)}")
            raise QueryError(f"no figure is called {unknown[0]!r}; {hint}")
        chosen = [named[each] for each in sections] or SECTIONS
        now = datetime.now(UTC)
        ask = self.now().ask
        return make_report(ask, _text(since), _text(until), filters, now, sections=chosen)


@dataclass(frozen=True)
class LakeWindow:
    """`filters`: what narrows each question that it can narrow; `cluster` is always there.
    `others`: clusters to which less happened, each with its number of events.
    """

    reader: LakeReader
    since: datetime
    until: datetime
    filters: Mapping[str, object]
    others: Mapping[str, int]

    def query(self, query: str, **more: object) -> pa.Table:
        """Answer a question as `LakeReader.query` does, about this window. `more`: other filters,
        or in place of those of the window.
        """
        narrowing = filters_of(query)
        own = {name: value for name, value in self.filters.items() if name in narrowing}
        return self.reader.query(query, since=self.since, until=self.until, **{**own, **more})

    def figures(self, *sections: str) -> Report:
        """Draw figures as `LakeReader.figures` does, of this window."""
        given: Mapping[str, Any] = self.filters
        return self.reader.figures(self.since, self.until, sections=sections, **given)

    @property
    def lines(self) -> list[str]:
        """The window, how far history reaches, when nobody looked, and which clusters it leaves
        out.
        """
        cluster = str(self.filters["cluster"])
        found = [f"{cluster}, {shown(self.since)} to {shown(self.until)}, in {self.reader.lake}"]
        found += self.reader.reach(since=self.since, until=self.until, cluster=cluster)
        if self.others:
            named = [f"{name} ({events:,} events)" for name, events in self.others.items()]
            more = f" and {left:,} more" if (left := len(named) - LINES) > 0 else ""
            found.append(f"not shown: {', '.join(named[:LINES])}{more}; `cluster` chooses one")
        return [printable(each) for each in found]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def opened_reader(place: str | PathLike[str] | Mapping[str, str]) -> LakeReader:
    """Open a lake, as `kafka_metadata_history.open` says."""
    lake, config = lake_at(place)
    if needs_no_spark(lake) and (lake.is_folder or not _has_session()):
        return LakeReader(lake, config, LiveLake(lake).now)
    found = _in_spark(lake, config.spark if config else None)
    return LakeReader(lake, config, lambda: found)


def _has_session() -> bool:
    """Whether a session of Spark is there, which may have credentials that this process has not."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes seconds

    return SparkSession.getActiveSession() is not None


def lake_at(place: str | PathLike[str] | Mapping[str, str]) -> tuple[Lake, Config | None]:
    """Return the lake that `kafka_metadata_history.open` is asked for, and its configuration where
    that is a file. Raises ConfigError for the file, LakeError for a mapping that names no lake.
    """
    if isinstance(place, Mapping):
        if {*place} != {"catalog"}:
            raise LakeError(f"{dict(place)}: neither a folder, a file nor {{'catalog': NAME}}")
        return Lake(catalog=place["catalog"]), None
    if fspath(place).endswith((".yaml", ".yml")):
        config = load(fspath(place))
        return config.lake, config
    lake = Lake(root=fspath(place))
    if lake.is_folder:
        lake = Lake(root=str(Path(place).expanduser().absolute()))
    return lake, None


def _in_spark(lake: Lake, spark: SparkSection | None) -> Opened:
    """Return what answers in the session that is there, as in a notebook of Databricks, or else in
    one that this starts.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - takes seconds

    if (active := SparkSession.getActiveSession()) is None:
        return opened(lake, spark=spark)
    active.conf.set("spark.sql.session.timeZone", "UTC")
    ask = asking(active, lake)
    return Opened(ask, ask, "Spark")


def _several(of: int | str | Iterable[int | str]) -> Iterable[int | str]:
    return (of,) if isinstance(of, int | str) else of


@overload
def _text(at: When) -> str: ...
@overload
def _text(at: When | None) -> str | None: ...
def _text(at: When | None) -> str | None:
    """Return a time as `moment` takes it."""
    return at.isoformat() if isinstance(at, datetime) else at


def _window(
    reader: LakeReader, since: datetime, until: datetime, filters: Mapping[str, object]
) -> LakeWindow:
    """Choose one. Raises QueryError for a filter that is none, or whose value history does not
    know; for a window that ends before it begins; for an empty history.
    """
    if unknown := [name for name in filters if name not in _NARROWING]:
        raise QueryError(f"{unknown[0]} narrows no window: {', '.join(_NARROWING)} do")
    ask = reader.now().ask
    given = {name: value for name, value in filters.items() if value is not None}
    of = question(CLUSTERS, since.isoformat(), until.isoformat(), {}, until)
    check_filters(given, ask)
    if "cluster" in given:
        return LakeWindow(reader, since, until, given, {})
    rows = ask(of.sql).to_pylist()
    if not rows:
        raise QueryError("history is empty: no cluster had a good poll that became history")
    first, *others = rows
    narrowed = {"cluster": first["cluster"], **given}
    left = {row["cluster"]: row["events"] for row in others}
    return LakeWindow(reader, since, until, narrowed, left)
