"""Alertmanager, by `/api/v2/alerts`. An alert is its labels: other labels make another alert."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kafka_metadata_history.notify.due import Action, Message
from kafka_metadata_history.notify.http import address_of, ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobs.configuration.notify import Target
    from kafka_metadata_history.notify.alert import Alert

AGAIN: Final = timedelta(minutes=1)
LASTS: Final = timedelta(minutes=5)
"""An alert that nobody sends again for so long ends by itself."""
_AT_ONCE: Final = 200
"""So many alerts are in one request."""


class Alertmanager:
    """One Alertmanager; of several that are one, each is a target."""

    again = AGAIN

    def __init__(self, name: str, target: Target) -> None:
        self._name, self._target = f"notify.targets.{name}.alertmanager.url", target

    def send(self, message: Message, now: datetime) -> None:
        """Send the alerts of a message."""
        self._post([*alerts_of(message, now)])

    def keep(self, alerts: Sequence[Alert], now: datetime) -> None:
        """Send again what is open."""
        lasting = [_alert(each, now + LASTS) for each in alerts]
        for begin in range(0, len(lasting), _AT_ONCE):
            self._post(lasting[begin : begin + _AT_ONCE])

    def _post(self, alerts: list[dict[str, Any]]) -> None:
        to = address_of(self._name, self._target.url).below("/api/v2/alerts")
        ask(to, json.dumps(alerts).encode(), {"Content-Type": "application/json"})


def alerts_of(message: Message, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the alerts of a message. As the severity is a label, that of a milder one is ended."""
    before = message.before
    for each in message.unsure:
        yield _alert(each, max(now, each.began))
    if message.action is Action.ENDED and before is not None:
        yield _alert(before, max(now, before.began), text=message.alert)
        return
    if before is not None and labels_of(before) != labels_of(message.alert):
        yield _alert(before, max(now, before.began))
    yield _alert(message.alert, now + LASTS)


def labels_of(of: Alert) -> dict[str, str]:
    """Return the labels by which Alertmanager routes an alert and knows it again."""
    labels = {
        "alertname": "Kafka" + "".join(map(str.capitalize, of.kind.split("_"))),
        "incident": of.key,
        "kind": of.kind,
        "severity": of.severity,
    }
    return labels | ({"cluster": of.cluster} if of.cluster is not None else {})


def _alert(of: Alert, ends: datetime, text: Alert | None = None) -> dict[str, Any]:
    words = text or of
    alert = {
        "labels": labels_of(of),
        "annotations": {"summary": words.headline, "description": words.text},
        "startsAt": of.began.isoformat(),
        "endsAt": ends.isoformat(),
    }
    return alert | ({"generatorURL": of.link} if of.link is not None else {})
