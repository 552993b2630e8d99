"""Alertmanager's alerts: the same labels from begin to end."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from jobs.configuration.notify import Target
from kafka_metadata_history.notify.alertmanager import LASTS, Alertmanager, alerts_of
from kafka_metadata_history.notify.due import Sent, due
from tests.support.alerts import EVERYTHING, NOON, after, alert, ended, seen
from tests.support.http_receiver import HttpReceiver

OPENED = due(seen(alert()), {}, EVERYTHING, [], NOON)[0]


def ends_at(of: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(of["endsAt"])


def test_it_is_open_until_it_is_not_sent_again(receiver: HttpReceiver) -> None:
    manager = Alertmanager("am", Target("alertmanager", f"{receiver.url}/sub/"))
    manager.send(OPENED, after(90))
    manager.keep([OPENED.alert], after(150))
    manager.keep([], after(150))
    assert [each.path for each in receiver.got] == ["/sub/api/v2/alerts"] * 2
    (first,), (again,) = receiver.bodies
    assert first == {
        "labels": {
            "alertname": "KafkaBrokerMissing",
            "cluster": "prod",
            "incident": "a",
            "kind": "broker_missing",
            "severity": "ticket",
        },
        "annotations": {"summary": "OPEN ticket: a", "description": "a is missing."},
        "startsAt": "2026-11-01T12:00:00+00:00",
        "endsAt": (after(90) + LASTS).isoformat(),
    }
    assert again == {**first, "endsAt": (after(150) + LASTS).isoformat()}


def test_many_are_sent_in_parts(receiver: HttpReceiver) -> None:
    manager = Alertmanager("am", Target("alertmanager", receiver.url))
    manager.keep([alert(f"a{number}") for number in range(450)], NOON)
    assert [len(each) for each in receiver.bodies] == [200, 200, 50]


def test_it_ends_with_the_labels_that_it_was_sent_with() -> None:
    over = ended(alert(severity="info", kind="partition_offline", link="https://x"))
    (message,) = due(seen(over), OPENED.becomes, EVERYTHING, [], NOON)
    (of,) = alerts_of(message, after(90))
    (first,) = alerts_of(OPENED, after(90))
    assert (of["labels"], of["startsAt"]) == (first["labels"], first["startsAt"])
    assert (ends_at(of), of["annotations"]["summary"]) == (after(90), "OVER ticket: a")


def test_another_severity_is_another_alert_and_ends_the_milder_one() -> None:
    (message,) = due(seen(alert(severity="page")), OPENED.becomes, EVERYTHING, [], NOON)
    milder, worse = alerts_of(message, after(90))
    assert (milder["labels"]["severity"], ends_at(milder)) == ("ticket", after(90))
    assert (worse["labels"]["severity"], ends_at(worse)) == ("page", after(90) + LASTS)
    assert {**milder["labels"], "severity": "page"} == worse["labels"]


def test_worse_in_another_way_is_the_same_alert() -> None:
    (message,) = due(seen(alert(level="offline")), OPENED.becomes, EVERYTHING, [], NOON)
    (of,) = alerts_of(message, after(90))
    assert of["labels"]["severity"] == "ticket"


def test_it_never_ends_before_it_began() -> None:
    """Clocks differ, and Alertmanager refuses that."""
    late = replace(OPENED.alert, began=after(100))
    sent = {"a": Sent(late, 1, is_open=True, at=after(100))}
    (message,) = due(seen(ended(late)), sent, EVERYTHING, [], NOON)
    (of,) = alerts_of(message, after(90))
    assert of["endsAt"] == of["startsAt"]


def test_a_summary_lasts_for_a_while_and_what_may_be_open_ends() -> None:
    unsure = {"a": replace(OPENED.becomes["a"], is_sure=False)}
    (message,) = due(seen(ended(alert())), unsure, EVERYTHING, [], NOON)
    of_incident, summary = alerts_of(message, after(90))
    assert (of_incident["labels"]["incident"], ends_at(of_incident)) == ("a", after(90))
    assert summary["labels"]["alertname"] == "KafkaSummary"
    assert ends_at(summary) == after(90) + LASTS
