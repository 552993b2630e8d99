"""Rules and the dashboard of Kafka's state: metrics and labels exist, and Prometheus' own promtool
says what the rules do.

It is a Go module: where there is no Go it is not tried.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_metadata_history.answers.metrics.declared import COUNTER, METRICS
from tests.support.for_each import for_each
from tests.support.go_programs import TOOLS, built
from tests.support.repository import ROOT
from tools import check_deploy

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "kafka-alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "kafka.json"
CASES = TOOLS / "promtool" / "kafka-alerts.test.yaml"
LABELS = {
    each.full_name + ("_total" if each.kind == COUNTER else ""): {"cluster", *each.labels}
    for each in METRICS
}
DURING_SCRAPE = {"instance", "job"}


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def expressions() -> Iterator[str]:
    """Each that a rule or a panel asks for, as Prometheus gets it."""
    yield from (rule["expr"] for rule in rules())
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric, and the labels by which it is narrowed."""
    for name, matchers in re.findall(r"(kafka_history_\w+)(?:\{(.*?)\})?", expression):
        yield name, set(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers))


@for_each("expression", sorted(set(expressions())))
def test_metrics_and_labels_exist(expression: str) -> None:
    found = list(selectors(expression))
    assert found
    for name, labels in found:
        assert labels <= LABELS[name], name
    grouped = {
        label.strip()
        for some in re.findall(r"(?:by|on) \((.*?)\)", expression)
        for label in some.split(",")
    }
    assert grouped <= DURING_SCRAPE.union(*(LABELS[name] for name, _ in found))


@for_each("rule", rules())
def test_rules_page_for_what_jmx_cannot_say_and_say_what_to_do(rule: dict[str, Any]) -> None:
    summary = rule["annotations"]["summary"]
    assert re.search(r"\b(?:Start|Run)\b", summary)
    severity = "warning" if "LogDir" in rule["alert"] else "critical"
    assert rule["labels"] == {"severity": severity}
    named = set(re.findall(r"\$labels\.(\w+)", summary))
    assert named <= {"cluster", "kind", "broker", "log_dir"}
    is_of_state = "unless" not in rule["expr"] and "absent" not in rule["expr"]
    assert ("keep_firing_for" in rule) is is_of_state
    for command in re.findall(r"kafka-metadata-history query (\w+)", summary):
        assert (ROOT / "schemas" / "queries" / f"{command}.sql").exists()


def test_an_unknown_metric_is_found() -> None:
    text = RULES.read_text()
    assert list(check_deploy.metrics_that_are_none(text)) == []
    wrong = text.replace("kafka_history_stale_brokers", "kafka_history_stale_broker")
    assert list(check_deploy.metrics_that_are_none(wrong)) == ["kafka_history_stale_broker"]


def test_each_rule_has_cases_and_is_described() -> None:
    cases, described = CASES.read_text(), (ROOT / "docs" / "metrics.md").read_text()
    assert all(rule["alert"] in cases for rule in rules())
    assert all(f"| {rule['alert']} |" in described for rule in rules())


def test_the_dashboard_chooses_clusters_and_shows_incidents() -> None:
    of = dashboard()
    variables = {each["name"]: each for each in of["templating"]["list"]}
    assert set(variables) == {"datasource", "incidents", "cluster"}
    assert (
        variables["cluster"]["query"] == "label_values(kafka_history_record_age_seconds, cluster)"
    )
    used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps([of["panels"], of["annotations"]])))
    assert used == set(variables)
    (annotation,) = of["annotations"]["list"]
    assert annotation["target"]["url"].endswith("/api/annotations?from=${__from}&to=${__to}")
    columns = {each["text"] for each in annotation["target"]["columns"]}
    assert columns == {"time", "timeEnd", "title", "text", "tags"}
    ids = [panel["id"] for panel in of["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in of["panels"]:
        for target in panel["targets"]:
            assert "$cluster" in target["expr"], panel["title"]


@pytest.mark.parametrize(
    "metric",
    [
        "stuck_transactions",
        "active_controller_id",
        "broker_log_dir_usable_bytes",
    ],
)
def test_transactions_storage_and_controllers_have_panels(metric: str) -> None:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    assert any(f"kafka_history_{metric}{{" in each for each in shown)


def test_panels_do_not_overlap() -> None:
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard()["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


# --- by promtool ---


@pytest.fixture(scope="module")
def promtool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(TOOLS / "promtool", tmp_path_factory.mktemp("promtool"), "tool")


def says(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [program, *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.soak
def test_promtool_takes_all_rules(promtool: Path) -> None:
    done = says(promtool, "check", "rules", *sorted((DEPLOY / "prometheus").glob("*.yaml")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
def test_rules_fire_when_they_should(promtool: Path) -> None:
    done = says(promtool, "test", "rules", CASES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("number", range(len(rules())))
def test_each_rule_is_missed(promtool: Path, tmp_path: Path, number: int) -> None:
    changed = yaml.safe_load(RULES.read_text())
    del changed["groups"][0]["rules"][number]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(changed))
    cases = yaml.safe_load(CASES.read_text()) | {"rule_files": ["rules.yaml"]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(cases))
    assert says(promtool, "test", "rules", tmp_path / "cases.yaml").returncode == 1


@pytest.mark.soak
def test_promtool_parses_what_panels_ask_for(promtool: Path) -> None:
    for expression in set(expressions()):
        asked = expression.replace("$cluster", ".*").replace("$__rate_interval", "5m")
        done = says(promtool, "--experimental", "promql", "format", asked)
        assert done.returncode == 0, done.stdout + done.stderr
