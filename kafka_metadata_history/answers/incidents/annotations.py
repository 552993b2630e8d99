"""Incidents as annotations of dashboards: docs/metrics.md has their JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from kafka_metadata_history.answers.incidents import story, words
from kafka_metadata_history.answers.incidents.read import read_window
from kafka_metadata_history.answers.incidents.records import Incident
from kafka_metadata_history.answers.questions import Ask

MOST: Final = 1_000
"""So many of a window are returned, the worst of them: a browser draws each one."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Annotation:
    """A stretch of time, as Grafana has it: ms since 1970 in UTC. It begins at the incident's last
    bound of its begin, which is when somebody could know. `timeEnd`: None while it lasts.
    """

    time: int
    timeEnd: int | None  # noqa: N815 - Grafana's name
    title: str
    text: str
    tags: Sequence[str]


def annotations(
    ask: Ask, since: datetime, until: datetime, cluster: str | None = None
) -> list[Annotation]:
    """Return an annotation for each incident, of a cluster or of all, that lasted in a window, in
    order of time. Those that were merged or withdrawn are left out. Raises QueryError and
    LakeError, as `ask` does.
    """
    found = read_window(ask, cluster, since, until)[:MOST]
    return sorted(map(_annotation, found), key=lambda each: (each.time, each.title))


def _annotation(of: Incident) -> Annotation:
    return Annotation(
        time_ms(of.began_before),
        None if of.ended_before is None else time_ms(of.ended_before),
        words.capital(words.of_incident(of)),
        f"{of.cluster}: {story.hurt(of)}; cause: {story.cause(of)} ({of.id})",
        (of.cluster, of.severity, of.kind, of.incident_class),
    )


def time_ms(at: datetime) -> int:
    """Return a time as whole ms since 1970."""
    return (at - _EPOCH) // _MILLISECOND
