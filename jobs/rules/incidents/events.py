"""Events: how the row of an incident differs from that of the round before."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobs.rules.ids import row_id
from jobs.rules.incidents.finding import LEVELS
from jobs.rules.incidents.incident import MERGED, WITHDRAWN, came_again
from metadata_source.text import counted
from schemas.incidents import SEVERITIES

Row = dict[str, Any]
_RANKS: Mapping[str | None, int] = {None: 0} | {
    level: place for place, level in enumerate(LEVELS.values(), 1)
}


@dataclass(frozen=True)
class Observed:
    """Between which observations something changed, and when the round was made that found it."""

    after: datetime | None
    until: datetime
    known_at: datetime


def events(before: Row | None, row: Row, of: Observed) -> Iterable[Row]:
    """The events of an incident, by its rows of the round before (None: it is new) and of now."""
    began = row["began_after"], row["began_before"]
    ended = row["ended_after"], row["ended_before"]
    now = of.after, of.until
    is_back = before is not None and came_again(before, row)
    if before is None:
        yield _event("opened", row, began, of)
    elif is_back:
        yield _event("reopened", row, now, of)
    if row["end_reason"] in {MERGED, WITHDRAWN}:
        if before is None or before["end_reason"] != row["end_reason"]:
            yield _event(row["end_reason"], row, now, of, row["merged_into"])
        return
    if before is not None:
        if is_worse(before, row):
            yield _event("worse", row, now, of, row["worst_level"])
        elif _hurt(row) < _hurt(before) and row["ended_before"] is None:
            yield _event("eased", row, now, of)
        if _cause(row) != _cause(before):
            yield _event("revised", row, now, of, f"cause was {_cause(before)}")
    was_open = before is None or before["ended_before"] is None or is_back
    if row["ended_before"] is not None and was_open:
        yield _event("ended", row, ended, of)


def is_worse(before: Row, row: Row) -> bool:
    """Whether an incident is of a worse severity or level, or hits another broker."""
    ranks = SEVERITIES.index(row["severity"]) - SEVERITIES.index(before["severity"])
    levels = _RANKS[row["worst_level"]] - _RANKS[before["worst_level"]]
    more = {*row["brokers"]} - {*before["brokers"]}
    return ranks > 0 or levels > 0 or (bool(more) and bool(before["brokers"]))


def _hurt(row: Row) -> tuple[bool, bool]:
    return row["offline"] > 0, row["under_min_isr"] > 0


def _cause(row: Row) -> str:
    return row["cause"] if row["cause_of"] is None else f"{row['cause']}: {row['cause_of']}"


def about(row: Row) -> str:
    """Who an incident is about, for people."""
    brokers, groups, topics = row["brokers"], row["group_ids"], row["topics"]
    if row["cause"] == "rack" and row["cause_of"] is not None:
        return f"rack {row['cause_of']}"
    if brokers:
        return f"broker{'s' if len(brokers) > 1 else ''} {', '.join(map(str, brokers))}"
    if topics:
        return f"topic {topics[0]}" + (f" and {len(topics) - 1} more" if len(topics) > 1 else "")
    if groups:
        return f"group {groups[0]}" + (f" and {len(groups) - 1} more" if len(groups) > 1 else "")
    return "the controllers"


def baseline(rows: list[Row], of: Observed) -> Row:
    """What lasts when incidents of a cluster are made for the first time."""
    worst = max(rows, key=lambda row: SEVERITIES.index(row["severity"]))
    whole = {
        **worst,
        "id": None,
        "offline": sum(row["offline"] for row in rows),
        "under_min_isr": sum(row["under_min_isr"] for row in rows),
    }
    began = None, of.until
    return _event("baseline", whole, began, of, f"{counted(len(rows), 'incident')} open")


def _event(
    event: str,
    row: Row,
    happened: tuple[datetime | None, datetime],
    of: Observed,
    detail: str | None = None,
) -> Row:
    return {
        "id": row_id(row["id"], row["cluster_id"], event, of.known_at.isoformat()),
        "cluster_id": row["cluster_id"],
        "cluster": row["cluster"],
        "event": event,
        "incident_id": row["id"],
        "kind": row["kind"],
        "severity": row["severity"],
        "what": about(row),
        "happened_after": happened[0],
        "happened_before": happened[1],
        "known_at": of.known_at,
        "offline": row["offline"],
        "under_min_isr": row["under_min_isr"],
        "detail": detail,
    }
