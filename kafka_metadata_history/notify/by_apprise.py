"""Any other receiver, by a URL of Apprise: mail, Slack, Teams, Telegram and more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from jobs.configuration.config import ConfigError
from kafka_metadata_history.notify.due import Action, Message
from kafka_metadata_history.notify.http import SendError, secret_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobs.configuration.notify import Target
    from kafka_metadata_history.notify.alert import Alert


class ByApprise:
    """A URL that Apprise knows how to send to."""

    again = None

    def __init__(self, name: str, target: Target) -> None:
        """Raise ConfigError if Apprise is not installed."""
        try:
            import apprise  # noqa: PLC0415 - an extra, and half a second
        except ImportError as error:
            raise ConfigError(
                f"notify.targets.{name}: Apprise is not installed: "
                "pip install 'kafka-metadata-history[apprise]'"
            ) from error
        logging.getLogger("apprise").setLevel(logging.CRITICAL)  # its lines may hold URLs
        self._apprise: Any = apprise
        self._name, self._target = f"notify.targets.{name}.apprise.url", target

    def send(self, message: Message, _: datetime) -> None:
        """Send a message as a title and a text."""
        of = message.alert
        sender = self._apprise.Apprise()
        if not sender.add(secret_of(self._name, self._target.url)):
            raise SendError(
                f"{self._name}: Apprise knows no such URL, or a package for it is missing"
            )
        kinds = self._apprise.NotifyType
        kind = kinds.FAILURE if of.severity == "page" else kinds.WARNING
        if message.action in {Action.ENDED, Action.SUMMARY}:
            kind = kinds.SUCCESS
        link = f"\n{of.link}" if of.link is not None else ""
        is_sent = sender.notify(
            title=f"WORSE {of.title}" if message.action is Action.WORSE else of.headline,
            body=f"{of.text}{link}\n[{message.key}]",
            notify_type=kind,
            body_format=self._apprise.NotifyFormat.TEXT,
        )
        if not is_sent:
            raise SendError("Apprise could not send it")

    def keep(self, _: Sequence[Alert], __: datetime) -> None:
        """Do nothing: a message is sent once."""
