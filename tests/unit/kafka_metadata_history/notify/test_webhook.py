"""The JSON of a webhook: docs/notify.md lists the fields."""

import re

from jobs.configuration.notify import Target
from kafka_metadata_history.notify.due import due
from kafka_metadata_history.notify.webhook import Webhook, body_of
from tests.support.alerts import EVERYTHING, NOON, alert, ended, seen
from tests.support.http_receiver import HttpReceiver
from tests.support.repository import ROOT


def test_a_message_has_a_key_that_lets_drop_doubles(receiver: HttpReceiver) -> None:
    (message,) = due(seen(alert()), {}, EVERYTHING, [], NOON)
    Webhook("hook", Target("webhook", receiver.url)).send(message, NOON)
    (got,) = receiver.got
    assert got.headers["idempotency-key"] == got.body["key"] == "a-opened-1"
    assert got.headers["content-type"] == "application/json"
    assert got.body == {
        "action": "opened",
        "key": "a-opened-1",
        "incident": "a",
        "cluster": "prod",
        "kind": "broker_missing",
        "severity": "ticket",
        "level": None,
        "brokers": [3],
        "began": "2026-11-01T12:00:00+00:00",
        "ended": None,
        "end_reason": None,
        "state": "OPEN",
        "title": "ticket: a",
        "text": "a is missing.",
        "link": None,
        "incidents": [],
    }


def test_a_summary_names_its_incidents() -> None:
    (summary,) = due(seen(ended(alert("a")), ended(alert("b"))), {}, EVERYTHING, [], NOON)
    body = body_of(summary)
    assert (body["action"], body["incidents"], body["cluster"]) == ("summary", ["a", "b"], None)


def test_the_document_has_each_field() -> None:
    (message,) = due(seen(alert()), {}, EVERYTHING, [], NOON)
    text = (ROOT / "docs/notify.md").read_text()
    documented = re.findall(r"(?m)^\| `(\w+)` \|", text.split("## A webhook")[1].split("\n## ")[0])
    assert sorted(documented) == sorted(body_of(message))
