"""The incidents of all clusters on one screen."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from jobs.configuration.severities import NOTHING_RECORDED, SEVERITIES
from kafka_metadata_history.answers.incidents import story, words
from kafka_metadata_history.answers.questions import shown
from kafka_metadata_history.answers.text import as_json as json_lines
from kafka_metadata_history.answers.thresholds import span
from kafka_metadata_history.names import NAME
from metadata_source.text import printable, text_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from kafka_metadata_history.answers.incidents.records import Incident, Recorded

MOST: Final = 15
"""So many open incidents have a line."""
SHORTEST: Final = 8
"""Of the beginning of an id that is shown."""


@dataclass(frozen=True)
class Listing:
    """`open`: the worst first; `over`: the newest first. `expected`: clusters that are to be
    recorded. `silent_after`: if nothing was recorded of a cluster for longer, that is a page of its
    own; None: never.
    """

    recorded: Sequence[Recorded]
    open: Sequence[Incident]
    over: Sequence[Incident]
    expected: Sequence[str]
    silent_after: timedelta | None = SEVERITIES[NOTHING_RECORDED].page


def silent(of: Listing, now: datetime) -> list[tuple[str, datetime | None]]:
    """Return the clusters that are to be recorded and are not, and up to when they are."""
    if (after := of.silent_after) is None:
        return []
    until = {each.cluster: each.until for each in of.recorded}
    found = [(name, until.get(name)) for name in of.expected]
    return [(name, at) for name, at in found if at is None or now - at > after]


def as_text(of: Listing, now: datetime, config: str | None) -> str:
    """Return the open incidents, then those that are over last."""
    return "".join(f"{printable(line)}\n" for line in _lines(of, now, config))


def _lines(of: Listing, now: datetime, config: str | None) -> Iterator[str]:
    yield from _silent(of, now)
    yield from not_made(of.recorded)
    if of.open:
        yield from _table(of.open[:MOST], of)
        if (left := len(of.open) - MOST) > 0:
            typed = [NAME, "query", "incidents", *_config(config)]
            yield f"and {left:,} more: {shlex.join(typed)}"
    else:
        is_known = all(each.is_made for each in of.recorded)
        yield f"no incident is {'' if is_known else 'known to be '}open{_age(of, now)}"
    if of.over:
        yield ""
        yield "over:"
        yield from _table(of.over, of)
    if first := [*of.open, *of.over][:1]:
        yield ""
        typed = [NAME, "explain", _short(first[0], of), *_config(config)]
        yield f"more of one: {shlex.join(typed)}"


def _silent(of: Listing, now: datetime) -> Iterator[str]:
    for name, at in silent(of, now):
        since = "" if at is None else f" since {shown(at)}, {span(now - at)} ago"
        yield f"nothing recorded of {name}{since}: page"


def not_made(recorded: Sequence[Recorded]) -> Iterator[str]:
    """Yield a line that says whose incidents are not made yet, if there are such clusters."""
    if lacking := [each.cluster for each in recorded if not each.is_made]:
        yield (
            f"incidents of {words.listed(lacking)} are not made yet: `{NAME} run` of this version "
            "makes them"
        )


def _age(of: Listing, now: datetime) -> str:
    known = [(each.until, each.cluster) for each in of.recorded if each.is_made and each.until]
    if not known:
        return ""
    until, cluster = min(known)
    oldest = f", of {cluster} the oldest" if len(known) > 1 else ""
    return f"; the record reaches to {shown(until)}, {span(now - until)} ago{oldest}"


def _table(incidents: Sequence[Incident], of: Listing) -> list[str]:
    return text_table(
        ("severity", "id", "cluster", "began", "what", "hurt", "cause"),
        [
            (
                each.severity,
                _short(each, of),
                each.cluster,
                shown(each.began_before),
                words.of_incident(each),
                story.hurt_now(each) if each.is_open else story.hurt_most(each),
                words.cause(each.cause, each.cause_of, each.cause_sureness),
            )
            for each in incidents
        ],
    )


def _short(incident: Incident, of: Listing) -> str:
    """The beginning of an id that no other one has here."""
    others = [each.id for each in (*of.open, *of.over) if each.id != incident.id]
    for length in range(SHORTEST, len(incident.id)):
        if not any(each.startswith(incident.id[:length]) for each in others):
            return incident.id[:length]
    return incident.id


def _config(config: str | None) -> list[str]:
    return [] if config is None else ["--config", config]


def as_json(of: Listing, now: datetime, _: str | None) -> str:
    """Return one object on one line."""
    fields = {
        "at": now,
        "silent": [{"cluster": name, "recorded_until": at} for name, at in silent(of, now)],
        "recorded": [asdict(each) for each in of.recorded],
        "open": [_fields(each) for each in of.open],
        "over": [_fields(each) for each in of.over],
    }
    return json_lines(pa.Table.from_pylist([fields]))


def _fields(of: Incident) -> dict[str, object]:
    return {**asdict(of), "says": story.sentence(of)}


def as_markdown(of: Listing, now: datetime, config: str | None) -> str:
    """Return the lines of the text as a block of code."""
    return f"```text\n{as_text(of, now, config)}```\n"


FORMS: Final = {"text": as_text, "json": as_json, "md": as_markdown}
