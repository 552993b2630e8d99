"""Which alerts a target gets: those that its keys let pass, and that no silence covers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from schemas.incidents import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobs.configuration.notify import Silence, Target
    from kafka_metadata_history.notify.alert import Alert


@dataclass(frozen=True)
class Window:
    """A window that people have marked. `cluster`: None: of all."""

    cluster: str | None
    since: datetime
    until: datetime


def passes(alert: Alert, target: Target) -> bool:
    """Whether a target gets messages of such an alert. The lake itself is of every cluster."""
    return (
        SEVERITIES.index(alert.severity) >= SEVERITIES.index(target.severity)
        and (not target.clusters or alert.cluster is None or alert.cluster in target.clusters)
        and (not target.kinds or alert.kind in target.kinds)
    )


def is_silenced(
    alert: Alert, silences: Sequence[Silence], windows: Sequence[Window], now: datetime
) -> bool:
    """Whether nobody gets messages of an alert now; of one that is over: when it ended. One that
    has several brokers is silenced if all of them are.
    """
    at = alert.ended or now
    covering = [
        each
        for each in silences
        if each.cluster in {None, alert.cluster}
        and each.kind in {None, alert.kind}
        and (each.until is None or at <= each.until)
        and (not each.marks or _is_marked(alert, windows, at))
    ]
    if any(each.broker is None for each in covering):
        return True
    return bool(alert.brokers) and {*alert.brokers} <= {each.broker for each in covering}


def _is_marked(alert: Alert, windows: Sequence[Window], at: datetime) -> bool:
    return any(
        each.cluster in {None, alert.cluster} and each.since <= at <= each.until for each in windows
    )
