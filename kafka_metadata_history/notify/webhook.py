"""A URL that takes JSON: docs/notify.md has the fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafka_metadata_history.notify.http import address_of, ask

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobs.configuration.notify import Target
    from kafka_metadata_history.notify.alert import Alert
    from kafka_metadata_history.notify.due import Message


class Webhook:
    """A URL that messages are posted to."""

    again = None

    def __init__(self, name: str, target: Target) -> None:
        self._name, self._target = f"notify.targets.{name}.webhook.url", target

    def send(self, message: Message, _: datetime) -> None:
        """Post a message."""
        headers = {"Content-Type": "application/json", "Idempotency-Key": message.key}
        body = json.dumps(body_of(message)).encode()
        ask(address_of(self._name, self._target.url), body, headers)

    def keep(self, _: Sequence[Alert], __: datetime) -> None:
        """Do nothing: a message is sent once."""


def body_of(message: Message) -> dict[str, Any]:
    """Return what is posted. What is not known is null."""
    of = message.alert
    return {
        "action": str(message.action),
        "key": message.key,
        "incident": of.key,
        "cluster": of.cluster,
        "kind": of.kind,
        "severity": of.severity,
        "level": of.level,
        "brokers": [*of.brokers],
        "began": of.began.isoformat(),
        "ended": None if of.ended is None else of.ended.isoformat(),
        "end_reason": of.end_reason,
        "state": of.state,
        "title": of.title,
        "text": of.text,
        "link": of.link,
        "incidents": [each.key for each in message.over],
    }
