"""PagerDuty's events, of its Events API v2."""

import pytest

from jobs.configuration.notify import Target
from kafka_metadata_history.notify.due import Message, due
from kafka_metadata_history.notify.pagerduty import PagerDuty, events_of
from tests.support.alerts import EVERYTHING, NOON, alert, ended, seen
from tests.support.http_receiver import HttpReceiver


def opened() -> Message:
    of = alert(severity="page", level="offline", link="https://pages/incident/a")
    (message,) = due(seen(of), {}, EVERYTHING, [], NOON)
    return message


def test_the_events_of_an_incident_have_one_key(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_ROUTING", "r0ut1ng")
    service = PagerDuty("on-call", Target("pagerduty", receiver.url, "env:KAFKA_ROUTING"))
    first = opened()
    (over,) = due(seen(ended(first.alert)), first.becomes, EVERYTHING, [], NOON)
    service.send(first, NOON)
    service.send(over, NOON)
    assert receiver.bodies == [
        {
            "routing_key": "r0ut1ng",
            "event_action": "trigger",
            "dedup_key": "a",
            "client": "kafka-metadata-history",
            "client_url": "https://pages/incident/a",
            "payload": {
                "summary": "ticket: a",
                "source": "prod",
                "severity": "critical",
                "timestamp": "2026-11-01T12:00:00+00:00",
                "component": "broker_missing",
                "group": "prod",
                "class": "broker_missing",
                "custom_details": {
                    "text": "a is missing.",
                    "incident": "a",
                    "level": "offline",
                    "brokers": [3],
                },
            },
        },
        {"routing_key": "r0ut1ng", "event_action": "resolve", "dedup_key": "a"},
    ]


def test_worse_is_the_same_alert() -> None:
    sent = due(seen(alert()), {}, EVERYTHING, [], NOON)[0].becomes
    (message,) = due(seen(alert(severity="page")), sent, EVERYTHING, [], NOON)
    (event,) = events_of(message)
    assert (event["event_action"], event["dedup_key"]) == ("trigger", "a")
    assert event["payload"]["severity"] == "critical"


def test_a_summary_is_over_at_once() -> None:
    (summary,) = due(seen(ended(alert())), {}, EVERYTHING, [], NOON)
    trigger, resolve = events_of(summary)
    assert (trigger["event_action"], trigger["payload"]["severity"]) == ("trigger", "info")
    assert (resolve["event_action"], resolve["dedup_key"]) == ("resolve", trigger["dedup_key"])


def test_a_long_title_is_cut() -> None:
    (message,) = due(seen(alert(title="x" * 5000)), {}, EVERYTHING, [], NOON)
    (event,) = events_of(message)
    assert len(event["payload"]["summary"]) == 1024
