"""PagerDuty, by its Events API v2: an alert is triggered and resolved by one `dedup_key`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from kafka_metadata_history.names import NAME
from kafka_metadata_history.notify.due import Action, Message
from kafka_metadata_history.notify.http import address_of, ask, secret_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobs.configuration.notify import Target
    from kafka_metadata_history.notify.alert import Alert

SEVERITIES: Final = {"page": "critical", "ticket": "warning", "info": "info"}
"""Our severities -> PagerDuty's."""
_LONGEST_SUMMARY: Final = 1024
"""Characters that PagerDuty takes."""
_ACTIONS: Final = {
    Action.OPENED: ("trigger",),
    Action.WORSE: ("trigger",),
    Action.ENDED: ("resolve",),
    Action.SUMMARY: ("trigger", "resolve"),
}


class PagerDuty:
    """A service of PagerDuty."""

    again = None

    def __init__(self, name: str, target: Target) -> None:
        self._name, self._target = f"notify.targets.{name}.pagerduty", target

    def send(self, message: Message, _: datetime) -> None:
        """Send the events of a message."""
        to = address_of(f"{self._name}.url", self._target.url)
        key = secret_of(f"{self._name}.routingKey", self._target.routing_key)
        for event in events_of(message):
            body = json.dumps({"routing_key": key, **event}).encode()
            ask(to, body, {"Content-Type": "application/json"}, hidden=key)

    def keep(self, _: Sequence[Alert], __: datetime) -> None:
        """Do nothing: what is triggered stays so."""


def events_of(message: Message) -> Iterator[dict[str, Any]]:
    """Yield the events of a message, without the routing key. A summary is over at once, and so is
    what may have been triggered of it.
    """
    for each in message.unsure:
        yield _event("resolve", each)
    for action in _ACTIONS[message.action]:
        yield _event(action, message.alert)


def _event(action: str, of: Alert) -> dict[str, Any]:
    event: dict[str, Any] = {"event_action": action, "dedup_key": of.key}
    if action == "resolve":
        return event
    event |= {"client": NAME} | ({"client_url": of.link} if of.link is not None else {})
    return event | {
        "payload": {
            "summary": of.title[:_LONGEST_SUMMARY],
            "source": of.cluster or NAME,
            "severity": SEVERITIES[of.severity],
            "timestamp": of.began.isoformat(),
            "component": of.kind,
            "group": of.cluster or NAME,
            "class": of.kind,
            "custom_details": {
                "text": of.text,
                "incident": of.key,
                "level": of.level,
                "brokers": [*of.brokers],
            },
        }
    }
