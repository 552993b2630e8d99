"""Alerts as a lake would give them, by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.configuration.notify import Target
from kafka_metadata_history.notify.alert import Alert
from kafka_metadata_history.notify.due import Seen

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
EVERYTHING = Target("webhook", "https://x", severity="info")
PAGES = replace(EVERYTHING, severity="page")


def after(seconds: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(seconds=seconds)


def alert(key: str = "a", **more: Any) -> Alert:
    """One that lasts since noon."""
    of: dict[str, Any] = {
        "key": key,
        "cluster": "prod",
        "kind": "broker_missing",
        "severity": "ticket",
        "began": NOON,
        "state": "OPEN",
        "title": f"ticket: {key}",
        "text": f"{key} is missing.",
        "brokers": (3,),
    }
    return Alert(**(of | more))


def ended(of: Alert, seconds: float = 60, reason: str = "recovered") -> Alert:
    """The same, over so long after noon."""
    return replace(of, state="OVER", ended=after(seconds), end_reason=reason)


def seen(*alerts: Alert, seconds: float = 90, **more: Any) -> Seen:
    """The state so long after noon."""
    return Seen(after(seconds), alerts, **more)
