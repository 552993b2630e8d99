"""Incidents, read from a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafka_metadata_history.answers.incidents.records import (
    Account,
    Event,
    Finding,
    Incident,
    Recorded,
    record,
)
from kafka_metadata_history.answers.markers import with_values
from kafka_metadata_history.answers.questions import QueryError
from kafka_metadata_history.names import NAME
from metadata_source.text import did_you_mean, printable
from schemas.incidents import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from kafka_metadata_history.answers.incidents.records import Row
    from kafka_metadata_history.answers.questions import Ask

LAST: Final = 5
"""So many incidents that are over are listed below the open ones."""
_NAMED: Final = 3
_ONE: Final = "startswith(id, :id) ORDER BY id"
_OPEN: Final = "is_live AND end_reason IS NULL ORDER BY began_before, id"
_TRUE: Final = "(end_reason IS NULL OR end_reason NOT IN ('merged', 'withdrawn'))"
_OVER: Final = (
    f"end_reason IS NOT NULL AND {_TRUE} ORDER BY ended_before DESC, began_before DESC, id "
    f"LIMIT {LAST}"
)
_NEWEST: Final = """((is_live AND end_reason IS NULL) OR id IN (
  SELECT incident_id FROM gold.events WHERE known_at >= CAST(:since AS TIMESTAMP)){given})"""
_IN_WINDOW: Final = f"""{_TRUE} AND began_before <= CAST(:until AS TIMESTAMP)
  AND (ended_before IS NULL OR ended_before >= CAST(:since AS TIMESTAMP))
  ORDER BY began_before, id"""


def read_recorded(ask: Ask, cluster: str | None) -> list[Recorded]:
    """Return how much is recorded of each cluster, or of this one. Raises QueryError for one that
    history does not know, and for an empty history.
    """
    found = [record(Recorded, row) for row in _rows(ask, "recorded")]
    names = [each.cluster for each in found]
    if not found:
        raise QueryError("history is empty: no cluster had a good poll that became history")
    if cluster is not None and cluster not in names:
        hint = did_you_mean(cluster, names, f"history has {', '.join(names)}")
        raise QueryError(printable(f"--cluster {cluster}: history knows no such cluster; {hint}"))
    return [each for each in found if cluster in {None, each.cluster}]


def read_open(ask: Ask, cluster: str | None) -> list[Incident]:
    """Return the incidents that last, the worst first."""
    return worst_first(_incidents(ask, _OPEN, cluster=cluster))


def read_over(ask: Ask, cluster: str | None) -> list[Incident]:
    """Return the last ones that are over, the newest first."""
    return _incidents(ask, _OVER, cluster=cluster)


def read_window(ask: Ask, cluster: str | None, since: datetime, until: datetime) -> list[Incident]:
    """Return the incidents of a cluster, or of all, that lasted in a window, the worst first."""
    window = {"since": since.isoformat(), "until": until.isoformat()}
    return worst_first(_incidents(ask, _IN_WINDOW, cluster=cluster, **window))


def read_newest(ask: Ask, since: datetime, ids: Sequence[str]) -> list[Incident]:
    """Return the incidents that last, those of which something was known from then on, and those
    with these ids: the worst first.
    """
    known = {f"id{number}": id_ for number, id_ in enumerate(ids)}
    given = "".join(f" OR id = :{name}" for name in known)
    values = {"since": since.isoformat(), "cluster": None, **known}
    return worst_first(_incidents(ask, _NEWEST.replace("{given}", given), **values))


def read_windows(ask: Ask, since: datetime) -> list[Row]:
    """Return the windows that people have marked, and that were not over then: `cluster` (null: of
    all), `since` and `until`.
    """
    return _rows(ask, "windows", since=since.isoformat())


def worst_first(incidents: Collection[Incident]) -> list[Incident]:
    """Sort by severity, then by what is hurt now, then at most."""
    return sorted(
        incidents,
        key=lambda each: (
            -SEVERITIES.index(each.severity),
            -each.offline,
            -each.under_min_isr,
            -len(each.group_ids) if each.is_open else 0,
            -each.offline_most,
            -each.under_min_isr_most,
            each.began_before,
            each.id,
        ),
    )


def read_account(
    ask: Ask, prefix: str, cluster: str | None, recorded: Sequence[Recorded]
) -> Account:
    """Return all that is known of the incident whose id begins so. `cluster`: None: of any one.
    `recorded`: as `read_recorded` returned it.

    Raises QueryError if there is none, or if there are several.
    """
    of = _found(ask, prefix, cluster, is_made=any(each.is_made for each in recorded))
    # A cluster that was taken out of the configuration may have none.
    nothing = Recorded(of.cluster, None, True, False, False, False)
    known = next((each for each in recorded if each.cluster == of.cluster), nothing)
    since = of.began_after or of.began_before
    until = of.ended_before or known.until or of.began_before
    values = {
        "id": of.id,
        "cluster": of.cluster,
        "since": since.isoformat(),
        "until": until.isoformat(),
    }
    at_begin = values | {"since": of.began_before.isoformat()}
    return Account(
        of,
        [record(Finding, row) for row in _rows(ask, "findings", **values)],
        known,
        [(row["gap_start"], row["gap_end"]) for row in _rows(ask, "gaps", **values)],
        {
            row["broker_id"]: f"{row['host']}:{row['port']}"
            for row in _rows(ask, "hosts", **at_begin)
        },
        [row["controller_id"] for row in _rows(ask, "controllers", **at_begin)],
    )


def read_events(ask: Ask, since: datetime, cluster: str | None) -> list[Event]:
    """Return the events that were known from then on, in that order."""
    rows = _rows(ask, "events", since=since.isoformat(), cluster=cluster)
    return [record(Event, row) for row in rows]


def _found(ask: Ask, prefix: str, cluster: str | None, *, is_made: bool) -> Incident:
    found = _incidents(ask, _ONE, cluster=cluster, id=prefix)
    exact = [each for each in found if each.id == prefix]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        some = ", ".join(each.id for each in found[:_NAMED])
        more = ", ..." if len(found) > _NAMED else ""
        raise QueryError(
            printable(f"{prefix!r} begins {len(found):,} incidents: {some}{more}; write more of it")
        )
    ids = [row["id"] for row in _rows(ask, "ids", cluster=cluster)]
    if not ids:
        none = "there is none" if is_made else f"none is made yet; `{NAME} run` makes them"
        raise QueryError(printable(f"there is no incident {prefix!r}: {none}"))
    last = f"the last ones are {', '.join(ids[:_NAMED])}"
    hint = did_you_mean(prefix, ids, last)
    raise QueryError(printable(f"there is no incident {prefix!r}; {hint}"))


def _incidents(ask: Ask, chosen: str, **values: object) -> list[Incident]:
    rows = _rows(ask, "incidents", chosen, **values)
    return [record(Incident, row) for row in rows]


def _rows(ask: Ask, name: str, chosen: str = "", **values: object) -> list[Row]:
    text = (Path(__file__).parent / "sql" / f"{name}.sql").read_text(encoding="utf-8")
    found: list[Row] = ask(with_values(text.replace("{chosen}", chosen), values)).to_pylist()
    return found
