"""The data of the page, asked of the lake: the cluster, how much is known of it, and its events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from kafka_metadata_history.answers.incidents.read import read_recorded, read_window
from kafka_metadata_history.answers.incidents.story import sentence
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import (
    FILTERS,
    QueryError,
    check_filters,
    question,
    reach,
)
from kafka_metadata_history.report import queries
from kafka_metadata_history.report.listings import listed
from kafka_metadata_history.report.marks import DrawnSection, Window, drawn_section, shown
from kafka_metadata_history.report.moments import ms
from metadata_source.text import counted
from schemas.lake import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.questions import Ask, Question
    from kafka_metadata_history.report.listings import Listed, Listing

LARGEST: Final = 10
INCIDENTS: Final = 3
"""So many incidents have a sentence."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Gap:
    """A stretch of the window in which nothing is known, in milliseconds since 1970."""

    begin: float
    end: float
    why: str


@dataclass(frozen=True)
class ReportData:
    """All that the page is made of."""

    asked: Question
    """With the cluster that the page is about."""
    made_at: datetime
    cluster: str | None
    """None: the lake has no history."""
    others: Sequence[tuple[str, int]] | None
    """The other clusters and how many events each had; None where a cluster was asked for."""
    events: int | None
    """Of this cluster, where it was chosen by them."""
    window: Window
    known_from: float | None
    reach: Sequence[str]
    """Lines that say from when to when history is known, and its gaps."""
    gaps: Sequence[Gap]
    gaps_left_out: int
    sections: Sequence[DrawnSection]
    levels: Sequence[Row]
    """As `queries.LEVELS` answers."""
    largest: Sequence[Row]
    incidents: Sequence[str] = ()
    """Sentences that say which incidents the window has, the worst first."""
    listed: Sequence[Listed] = ()

    @property
    def rows(self) -> int:
        """How many rows the page sums up."""
        return sum(each.rows for each in self.sections)


def read_report_data(
    ask: Ask,
    since: str,
    until: str | None,
    filters: Mapping[str, object],
    now: datetime,
    *,
    sections: Sequence[queries.Section] = queries.SECTIONS,
    listings: Sequence[Listing] = (),
) -> ReportData:
    """Ask the lake. Times and filters as `kafka_metadata_history.answers.questions.question` takes
    them.

    Raises QueryError for a time or a filter that cannot be meant so.
    """
    asked = question("timeline", since, until, filters, now)
    if asked.since == asked.until:
        raise QueryError("the window is empty: --since is --until")
    check_filters(asked.filters, ask)
    clusters = _clusters(asked, ask)
    if not clusters:
        end = ms(asked.until)
        assert end is not None  # noqa: S101 - for mypy
        window = Window(ms(asked.since) or 0, end, ms(asked.since) or 0)
        lines = reach(asked, ask)
        return ReportData(
            asked, now, None, None, None, window, None, lines, _beyond(window, None), 0, (), (), ()
        )
    chosen, *others = clusters
    asked = replace(asked, filters={**asked.filters, "cluster": chosen["cluster"]})
    known_from, known_until = _known(chosen)
    begin, end = ms(asked.since), ms(asked.until)
    assert begin is not None  # noqa: S101 - for mypy
    assert end is not None  # noqa: S101
    window = Window(begin, end, begin if known_until is None else known_until)
    gaps = _ask(ask, asked, queries.GAPS)
    is_named = "cluster" in filters and filters["cluster"] is not None
    return ReportData(
        asked,
        now,
        str(chosen["cluster"]),
        None if is_named else [(shown(row["cluster"]), int(row["events"])) for row in others],
        None if is_named else int(chosen["events"]),
        window,
        known_from,
        reach(asked, ask),
        [*_gaps(gaps, window), *_beyond(window, known_from)],
        int(gaps[0]["gaps"]) - len(gaps) if gaps else 0,
        [_drawn(ask, asked, section, window) for section in sections],
        _ask_if_there(ask, asked, queries.LEVELS) if queries.PARTITIONS in sections else (),
        _largest(ask, asked),
        _incidents(ask, asked),
        [*listed(ask, asked, listings)],
    )


def _incidents(ask: Ask, asked: Question) -> list[str]:
    """The incidents of the window, the worst first; that there are none, or that none are made.
    Those that have the broker and the group, if the report is about one.
    """
    cluster, broker, group = (asked.filters.get(name) for name in ("cluster", "broker", "group"))
    try:
        (recorded,) = read_recorded(ask, str(cluster))
        found = [
            each
            for each in read_window(ask, str(cluster), asked.since, asked.until)
            if (broker is None or broker in each.brokers)
            and (group is None or group in each.group_ids)
        ]
    except (QueryError, LakeError) as error:  # a lake of an older version has no such table
        return [f"Incidents are not known: {shown(error)}."]
    if not found:
        return (
            ["No incident in this window."] if recorded.is_made else ["Incidents are not made yet."]
        )
    sentences = [shown(sentence(each)) for each in found[:INCIDENTS]]
    if (left := len(found) - INCIDENTS) > 0:
        sentences.append(f"And {counted(left, 'more incident')}: query incidents lists them.")
    return sentences


def _clusters(asked: Question, ask: Ask) -> list[Row]:
    return _ask(ask, asked, queries.KNOWN if "cluster" in asked.filters else queries.CLUSTERS)


def _known(row: Row) -> tuple[float | None, float | None]:
    begins = [at for at in (ms(row["silver_from"]), ms(row["gold_from"])) if at is not None]
    return max(begins, default=None), ms(row["until"])


def _ask(ask: Ask, asked: Question, sql: str) -> list[Row]:
    values = {
        **dict.fromkeys(FILTERS),
        **asked.filters,
        "since": asked.since.isoformat(),
        "until": asked.until.isoformat(),
    }
    rows: list[Row] = ask(with_values(queries.limited(sql), values)).to_pylist()
    return rows


def _ask_if_there(ask: Ask, asked: Question, sql: str) -> list[Row]:
    """Ask of tables that the lake may not have: the sections of the page say so."""
    try:
        return _ask(ask, asked, sql)
    except QueryError:
        return []


def _drawn(ask: Ask, asked: Question, section: queries.Section, window: Window) -> DrawnSection:
    try:
        rows = _ask(ask, asked, queries.query_of(section))
        departures = (
            _ask(ask, asked, queries.DEPARTURES) if rows and section is queries.BROKERS else []
        )
    except QueryError as error:
        # A lake has no table that no job has made yet.
        return DrawnSection(section, (), (), missing=shown(error))
    return drawn_section(section, rows, departures, window)


def _largest(ask: Ask, asked: Question) -> list[Row]:
    """The largest thing of each kind, then the second of each, and so on."""
    found = [
        *_ask_if_there(ask, asked, queries.LARGEST),
        *_ask_if_there(ask, asked, queries.LARGEST_OF_GROUPS),
    ]
    return sorted(found, key=lambda row: int(row["rank"]))[:LARGEST]


def _gaps(rows: Iterable[Row], window: Window) -> Iterable[Gap]:
    for row in rows:
        begin, end = ms(row["gap_start"]), ms(row["gap_end"])
        if begin is not None and end is not None:
            kinds = row["error_kinds"] or []
            why = f"{row['reason']}: {', '.join(map(str, kinds))}" if kinds else row["reason"]
            yield Gap(window.clip(begin), window.clip(end), shown(why))


def _beyond(window: Window, known_from: float | None) -> list[Gap]:
    """The ends of the window that history does not reach."""
    begin = window.until if known_from is None else window.clip(known_from)
    ends = [
        Gap(window.since, begin, "before history"),
        Gap(max(begin, window.clip(window.known_until)), window.until, "no history yet"),
    ]
    return [gap for gap in ends if gap.begin < gap.end]
