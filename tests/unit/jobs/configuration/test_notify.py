"""The section `notify` of the configuration; what it refuses is in test_config_schema.py, too."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobs.configuration.config import Config, ConfigError, load
from jobs.configuration.notify import EVENTS_URL, Heartbeat, Notify, Silence, Target
from tests.support.configurations import GOOD, config


def notify_of(tmp_path: Path, section: str) -> Notify:
    return load(str(config(tmp_path, f"{GOOD}notify: {section}\n"))).notify


def test_without_the_section_nobody_gets_messages(tmp_path: Path) -> None:
    assert load(str(config(tmp_path, GOOD))).notify == Notify()
    assert notify_of(tmp_path, "") == Notify()


def test_targets_and_their_defaults(tmp_path: Path) -> None:
    found = notify_of(
        tmp_path,
        "{targets: {a: {pagerduty: {routingKey: env:KAFKA_KEY}},"
        " b: {webhook: {url: https://x/y}, severity: info, clusters: prod, kinds: [group_stuck]}}}",
    )
    assert found.targets == {
        "a": Target("pagerduty", EVENTS_URL, "env:KAFKA_KEY", "ticket"),
        "b": Target("webhook", "https://x/y", "", "info", ("prod",), ("group_stuck",)),
    }


def test_the_rest(tmp_path: Path) -> None:
    found = notify_of(
        tmp_path,
        "{pages: 'https://x/', heartbeat: {url: env:KAFKA_BEAT},"
        " silences: [{until: 2026-11-02 10:00, broker: 3}, {marks: yes, cluster: prod}]}",
    )
    until = datetime(2026, 11, 2, 10, tzinfo=UTC)
    assert found.pages == "https://x"
    assert found.heartbeat == Heartbeat("env:KAFKA_BEAT", timedelta(minutes=1))
    assert found.silences == (Silence(broker=3, until=until), Silence(cluster="prod", marks=True))


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (
            "{targets: {a: {webhook: {url: 'https://x'}, clusters: [prd]}}}",
            "notify.targets.a: there is no cluster prd; did you mean prod?",
        ),
        (
            "{silences: [{cluster: x, marks: true}]}",
            "notify.silences: there is no cluster x; clusters are prod",
        ),
        (
            "{targets: {a: {webhok: {url: x}}}}",
            "unknown key notify.targets.a.webhok; did you mean notify.targets.a.webhook?",
        ),
        (
            "{targets: {a: {webhook: {url: 'https://x'}, apprise: {url: env:KAFKA_A}}}}",
            "notify.targets.a: give one of pagerduty, alertmanager, webhook, apprise",
        ),
        ("{targets: {a: {alertmanager: {}}}}", "notify.targets.a.alertmanager.url is missing"),
        ("{heartbeat: {url: 'https://x', every: 1s}}", "notify.heartbeat.every: less than 10s"),
        ("{silences: [{broker: 3}]}", "notify.silences[0]: say until when, or marks: true"),
        ("{silences: [{until: soon}]}", "notify.silences[0].until: 'soon' is no time like"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, section: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        notify_of(tmp_path, section)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    "receiver",
    [
        "pagerduty: {routingKey: hunter2}",
        "webhook: {url: 'https://me:hunter2@x/y'}",
        "webhook: {url: 'https:/hunter2'}",
        "apprise: {url: 'mailto://me:hunter2@x'}",
    ],
)
def test_a_secret_is_a_reference_and_never_shown(tmp_path: Path, receiver: str) -> None:
    with pytest.raises(ConfigError, match=r"env:NAME") as raised:
        notify_of(tmp_path, f"{{targets: {{a: {{{receiver}}}}}}}")
    assert "hunter2" not in str(raised.value)


def test_where_it_keeps_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    read = load(str(config(tmp_path, GOOD)))
    assert read.notify_folder == "/data/lake/checkpoints/notify"
    far = Config(read.lake, "s3a://a", {})
    assert far.notify_folder.startswith("/state/kafka-metadata-history/")
    assert far.notify_folder != far.spool
