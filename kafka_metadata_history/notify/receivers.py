"""Those who get messages, by the kinds of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from kafka_metadata_history.notify.alertmanager import Alertmanager
from kafka_metadata_history.notify.by_apprise import ByApprise
from kafka_metadata_history.notify.pagerduty import PagerDuty
from kafka_metadata_history.notify.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from jobs.configuration.notify import Target
    from kafka_metadata_history.notify.alert import Alert
    from kafka_metadata_history.notify.due import Message


class Receiver(Protocol):
    """Gets messages. Both methods raise SendError, or OptionsError for a secret that is missing."""

    @property
    def again(self) -> timedelta | None:
        """How often what is open is to be sent again; None: never."""

    def send(self, message: Message, now: datetime, /) -> None:
        """Send a message, and return once the receiver has it."""

    def keep(self, alerts: Sequence[Alert], now: datetime, /) -> None:
        """Send again what is open."""


RECEIVERS: Final[Mapping[str, Callable[[str, Target], Receiver]]] = {
    "pagerduty": PagerDuty,
    "alertmanager": Alertmanager,
    "webhook": Webhook,
    "apprise": ByApprise,
}
"""Kind of a receiver, as of the configuration -> what makes it of a target and its name."""
