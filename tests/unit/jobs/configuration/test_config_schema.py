"""conf/schema.json, by which editors check a configuration, says what the parser does."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from jobs.configuration.config import ConfigError, load
from tests.support.repository import ROOT
from tools import config_schema

CONF = ROOT / "conf"
GOOD = """
lake: lake
checkpoints: /data/checkpoints
clusters:
  orders:
    {kafka.bootstrap.servers: 'b1:9092', pollInterval: 5s, enrich: none, migrating: true,
     metadataVersion: 12}
  payments:
    {kafka.bootstrap.servers: ['b1:9092', 'b2:9092'], kafka.client.id: monitor, kind: redpanda,
     controllerRacks: {'3001': a, '3002': b}}
poll:
  {pollInterval: 30s, commitInterval: 30s, topics: [orders, payments],
   enrich: {configs: 5m, elr: }}
groupLog: {startingOffsets: latest}
history: {pollsPerRound: 10, handOver: 5m}
retention: {bronze: 3d, silver: 400d, gold: 400 days}
thresholds: {flaps: 4, flapWindow: 1h, storm: 7, crashLoop: 3}
validation: {docs: docs}
status: {lastGoodPoll: 7m, failedPercent: 0, gaps: 0, behind: 5m}
notify:
  pages: https://history.example.com
  targets:
    on-call: {pagerduty: {routingKey: 'env:KAFKA_PAGERDUTY'}, severity: page, clusters: [orders]}
    alerts: {alertmanager: {url: 'http://127.0.0.1:9093'}, kinds: [group_stuck]}
    hook: {webhook: {url: 'file:/etc/kafka/hook'}}
    mail: {apprise: {url: 'env:KAFKA_MAIL'}}
  heartbeat: {url: 'https://beat.example.com/x', every: 1m}
  silences: [{cluster: orders, broker: 3, kind: broker_missing, until: '2026-11-02T00:00Z'},
             {marks: true}]
"""


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json.loads(config_schema.SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_schema_is_current() -> None:
    current = json.loads(config_schema.SCHEMA.read_text())
    assert current == config_schema.schema(), "run `python -m tools.config_schema`"


def test_an_editor_and_the_parser_take_the_same(
    validator: Draft202012Validator, tmp_path: Path
) -> None:
    example = (CONF / "example.yaml").read_text()
    assert example.startswith("# yaml-language-server: $schema=schema.json\n")
    of_catalog = GOOD.replace("lake: lake", "lake: {catalog: main}")
    of_numbers = (
        GOOD.replace("lake: lake", "lake: 2026")
        .replace("monitor", "12.5")
        .replace("docs: docs", "docs: 3")
    )
    of_nothing = GOOD.replace(
        "monitor", "a, kafka.security.protocol: SSL, kafka.ssl.endpoint.identification.algorithm: "
    )
    for number, text in enumerate((GOOD, example, of_catalog, of_numbers, of_nothing)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        assert load(str(file))
        assert list(validator.iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lake: lake", "lakes: lake"),
        ("lake: lake", "lake: {catalogue: main}"),
        ("clusters:\n", "cluster:\n"),
        ("kafka.client.id", "kafka.client.idd"),
        ("migrating: true", "migrating: soon"),
        ("'3002': b", "first: b"),
        ("'3002': b", "'3002': ''"),
        ("'3002': b", "'3002': "),
        ("'3002': b", "'3002': [b]"),
        ("{'3001': a, '3002': b}", "a"),
        ("pollInterval: 30s", "pollIntervall: 30s"),
        ("pollInterval: 30s", "clusters: x"),
        ("configs: 5m", "config: 5m"),
        ("startingOffsets", "startingOffset"),
        ("pollsPerRound: 10", "pollsPerRound: many"),
        ("handOver: 5m", "handOver: late"),
        ("bronze: 3d", "bronze: soon"),
        ("bronze: 3d", "bronze: 12M"),
        ("silver: 400d", "silver: 0d"),
        ("gold: 400 days", "gold: 48h"),
        ("flaps: 4", "flap: 4"),
        ("flapWindow: 1h", "flapWindow: long"),
        ("docs: docs", "docs: [docs]"),
        ("gaps: 0", "gaps: few"),
        ("routingKey: 'env:KAFKA_PAGERDUTY'", "routingKey: secret"),
        ("routingKey: 'env:KAFKA_PAGERDUTY'", ""),
        ("severity: page", "severity: pages"),
        ("kinds: [group_stuck]", "kinds: [stuck]"),
        ("'http://127.0.0.1:9093'", "'ftp://127.0.0.1'"),
        ("'http://127.0.0.1:9093'", "'http://me:secret@127.0.0.1'"),
        ("url: 'env:KAFKA_MAIL'", "url: 'mailto://me:secret@example.com'"),
        ("{apprise: {url: 'env:KAFKA_MAIL'}}", "{severity: page}"),
        ("pages: https://history.example.com", "pages: env:PAGES"),
        ("every: 1m", "every: soon"),
        ("{marks: true}", "{cluster: orders}"),
        ("broker: 3", "broker: first"),
        ("kind: broker_missing", "kind: missing"),
    ],
)
def test_an_editor_and_the_parser_refuse_the_same(
    validator: Draft202012Validator, tmp_path: Path, old: str, new: str
) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError):
        load(str(file))
    assert list(validator.iter_errors(yaml.safe_load(text))) != []
