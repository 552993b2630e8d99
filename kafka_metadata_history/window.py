"""A window of one cluster's history, about which several questions are asked: for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_metadata_history.answers.questions import (
    LINES,
    QueryError,
    check_filters,
    filters_of,
    question,
    shown,
)
from kafka_metadata_history.report.queries import CLUSTERS
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa

    from kafka_metadata_history.reader import LakeReader
    from kafka_metadata_history.report.make import Report

NARROWING = ("cluster", "topic", "broker", "group")


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
        """What it is, how far history reaches, when nobody looked, and which clusters it leaves
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


def window_of(
    reader: LakeReader, since: datetime, until: datetime, filters: Mapping[str, object]
) -> LakeWindow:
    """Choose a window. Raises QueryError for a filter that is none, or whose value history does not
    know; for a window that ends before it begins; for an empty history.
    """
    if unknown := [name for name in filters if name not in NARROWING]:
        raise QueryError(f"{unknown[0]} narrows no window: {', '.join(NARROWING)} do")
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
