"""Events as lines, and new ones as soon as they are committed."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafka_metadata_history.answers.incidents import story, words
from kafka_metadata_history.answers.incidents.read import read_events
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.text import as_json as json_lines
from metadata_source.text import printable
from schemas.incidents import EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Event
    from kafka_metadata_history.answers.questions import Ask
    from schemas.lake import Lake

_OVERLAP: Final = timedelta(minutes=10)
"""Rounds of two clusters may be committed in another order than they began."""


class Following:
    """The events of a lake that were not returned yet, in the order in which they were known."""

    def __init__(self, since: datetime, cluster: str | None) -> None:
        self._since, self._cluster = since, cluster
        self._returned: dict[str, datetime] = {}

    def new(self, ask: Ask) -> list[Event]:
        """Return the events that no call returned before."""
        found = [
            each
            for each in read_events(ask, self._since, self._cluster)
            if each.id not in self._returned
        ]
        self._returned |= {each.id: each.known_at for each in found}
        if self._returned:
            self._since = max(self._since, max(self._returned.values()) - _OVERLAP)
            self._returned = {id_: at for id_, at in self._returned.items() if at >= self._since}
        return found


def version(lake: Lake) -> int | None:
    """Return the number of the newest commit of gold.events; None if there is none. It lists
    Delta's log, and reads nothing.
    """
    log = Path(lake.path(EVENTS), "_delta_log")
    return max(
        (int(each.stem) for each in log.glob("[0-9]*.json") if each.stem.isdecimal()), default=None
    )


def as_text(events: list[Event]) -> Iterator[str]:
    """Yield a line for each event."""
    for each in events:
        now = story.counts([(each.offline, "offline"), (each.under_min_isr, "under min ISR")])
        happened = words.when(
            each.happened_after, each.happened_before, words.day_of(each.known_at)
        )
        said = [
            f"{each.kind.replace('_', ' ')}: {words.name(each.what)}",
            happened,
            *([now] if now else []),
            *([words.name(each.detail)] if each.detail is not None else []),
        ]
        of = "" if each.incident_id is None else f"  {each.incident_id}"
        yield printable(
            f"{shown(each.known_at)}  {each.cluster}  {each.severity:6}  {each.event:9}  "
            f"{'; '.join(said)}{of}"
        )


def as_json(events: list[Event]) -> Iterator[str]:
    """Yield a JSON object for each event."""
    if events:
        rows = pa.Table.from_pylist([asdict(each) for each in events])
        yield from json_lines(rows).splitlines()


FORMS: Final = {"text": as_text, "json": as_json}
