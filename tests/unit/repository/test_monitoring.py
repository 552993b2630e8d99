"""Alerts and the dashboard ask for metrics and labels that the status has."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.histories import DECLARED
from jobs.configuration.limits import Limits
from jobs.run.unanswered import Asked
from kafka_metadata_history.answers.status import (
    Cluster,
    ClusterLog,
    LakeStatus,
    Log,
    PollCounts,
    Size,
    Waiting,
)
from kafka_metadata_history.answers.status_text import PREFIX, as_prometheus
from kafka_metadata_history.answers.thresholds import OF_CLUSTER, OF_LAKE, judge
from kafka_metadata_history.command import NAME
from tests.support.for_each import for_each
from tests.support.repository import ROOT

DEPLOY = ROOT / "deploy"


def exported() -> dict[str, set[str]]:
    """Each metric that the status has, with its labels: of a lake in which everything is known."""
    now = datetime(2026, 11, 1, tzinfo=UTC)
    polls = PollCounts(10, {"timeout": 1}, 1, now, 1, now, "timeout", "no answer")
    waits = {each.waits.history: each.waits.says for each in DECLARED if each.waits is not None}
    waiting = tuple(Waiting(history, now, says) for history, says in waits.items())
    cluster = Cluster(
        "prod",
        timedelta(seconds=30),
        polls,
        now,
        0,
        0,
        waiting,
        1,
        timedelta(minutes=2),
        Log(now, 1),
    )
    cluster = replace(
        cluster,
        told_by="log",
        transaction_log=Log(now, 1),
        cluster_log=ClusterLog(now, now),
        offsets_at=now,
        asked=(Asked("groups"),),
    )
    facts = LakeStatus(
        now,
        "/lake",
        timedelta(hours=1),
        [cluster],
        [Size("bronze.metadata_polls", 1, 1, 1)],
        now,
        1,
    )
    text = as_prometheus(facts, judge(facts, Limits()))
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    assert set(found) == set(re.findall(r"(?m)^# TYPE (\w+)", text)), "a metric has no sample"
    return found


FUNCTIONS = {"absent", "increase", "max", "min", "sum", "time", "by", "label_values"}
DURING_SCRAPE = {"instance", "job"}


def check_promql(expression: str) -> None:
    """Raise for metrics and labels that the status does not have, and for what no PromQL could
    be.
    """
    metrics = exported()
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing), expression
    for name, selector in re.findall(rf"({PREFIX}_\w+)(?:\{{(.*?)\}})?", expression):
        assert name in metrics, f"{name} is no metric"
        for matcher in filter(None, selector.split(",")):
            match = re.fullmatch(r'(\w+)(=|!=|=~|!~)"([^"]*)"', matcher)
            assert match, matcher
            assert match[1] in metrics[name] | DURING_SCRAPE, f"{name} has no label {match[1]}"
            if match[1] == "threshold":
                assert match[3] in {*OF_CLUSTER, *OF_LAKE}
    bare = re.sub(rf'{PREFIX}_\w+|\{{.*?\}}|\[\w+\]|"[^"]*"', " ", expression)
    for grouped in re.findall(r"by \((\w+)\)", bare):
        assert grouped in {"cluster", "table", "kind"}
        bare = bare.replace(f"({grouped})", " ")
    assert set(re.findall(r"[a-zA-Z_]\w*", bare)) <= FUNCTIONS | {"cluster"}, expression
    assert re.search(PREFIX, expression), expression


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"]
    assert group["name"] == NAME
    found: list[dict[str, Any]] = group["rules"]
    return found


@for_each("rule", rules())
def test_alerts_are_of_metrics_that_exist_and_say_what_to_do(rule: dict[str, Any]) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    check_promql(rule["expr"])
    assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s"))
    assert rule["labels"]["severity"] in {"critical", "warning"}
    summary = rule["annotations"]["summary"]
    assert re.search(r"\b(?:Start|start|Run|See|Give|Keep|raise)\b", summary), "it says what to do"
    assert set(re.findall(r"\{\{ *\$?(\S+?) ", summary)) <= {"labels.cluster", "value"}
    thresholds = re.findall(r'threshold="(\w+)"', rule["expr"])
    if "labels.cluster" in summary and thresholds:
        assert set(thresholds) <= set(OF_CLUSTER), "a threshold of the lake has no cluster"


def test_every_threshold_has_an_alert_and_so_has_a_status_that_is_missing() -> None:
    told = [name for rule in rules() for name in re.findall(r'threshold="(\w+)"', rule["expr"])]
    assert sorted(told) == sorted([*OF_CLUSTER, *OF_LAKE])
    whole = " ".join(rule["expr"] for rule in rules())
    assert f"absent({PREFIX}_status_timestamp_seconds)" in whole
    assert f"time() - {PREFIX}_status_timestamp_seconds > " in whole
    assert f"time() - {PREFIX}_last_good_poll_timestamp_seconds" in whole
    assert len({rule["alert"] for rule in rules()}) == len(rules())


@pytest.mark.parametrize(
    "wrong",
    [
        f"{PREFIX}_last_poll_seconds > 3",
        f'{PREFIX}_table_bytes{{cluster="x"}}',
        f'{PREFIX}_threshold_crossed{{threshold="lag"}}',
        f"summ({PREFIX}_table_bytes)",
        f"sum({PREFIX}_table_bytes",
    ],
)
def test_an_expression_that_is_wrong_is_found(wrong: str) -> None:
    with pytest.raises(AssertionError):
        check_promql(wrong)


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
    return found


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    panels = dashboard()["panels"]
    for panel in panels:
        assert panel["title"]
        assert panel["targets"]
        for target in panel["targets"]:
            check_promql(target["expr"])
            legends = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            labels = exported()[re.findall(rf"{PREFIX}_\w+", target["expr"])[0]]
            assert set(legends) <= labels
            of_cluster = "cluster" in labels
            assert ("$cluster" in target["expr"]) == (of_cluster and "status" not in target["expr"])
    assert {panel["type"] for panel in panels} == {"stat", "timeseries", "table"}
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_the_dashboard_chooses_clusters() -> None:
    variables = {each["name"]: each for each in dashboard()["templating"]["list"]}
    assert set(variables) == {"datasource", "cluster"}
    assert variables["datasource"]["query"] == "prometheus"
    check_promql(variables["cluster"]["query"])
    assert variables["cluster"]["multi"] is variables["cluster"]["includeAll"] is True
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard()["panels"])))
    assert used == set(variables)
