"""The text of a state: labels, names that hurt, ages, and how many groups there are."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kafka_metadata_history.answers.metrics import declared
from kafka_metadata_history.answers.metrics.declared import COUNTER, METRICS, MOST_GROUPS, Sample
from kafka_metadata_history.answers.metrics.exposition import CONTENT_TYPE, exposition
from kafka_metadata_history.answers.metrics.state import (
    ClusterMetrics,
    GroupLag,
    Known,
    LakeMetrics,
)
from tests.support.exported_metrics import of, samples
from tests.support.incident import NOON

LIMIT = timedelta(seconds=90)
HOSTILE = 'a"b\\c\nd} 1\n# HELP x {é€\U0001f600'


def cluster(
    name: str = "prod",
    until: datetime | None = NOON,
    lags: Sequence[GroupLag] = (),
    lag_until: datetime | None = NOON,
) -> ClusterMetrics:
    """A cluster of which everything is known."""
    values = [
        Sample(each, tuple(f"{label}-1" for label in each.labels), 1)
        for each in METRICS
        if each not in {declared.RECORD_AGE, declared.LAG, declared.LAG_LEFT_OUT}
    ]
    return ClusterMetrics(name, Known(until, LIMIT), values, lags, Known(lag_until, 2 * LIMIT))


def text(*clusters: ClusterMetrics, age: float = 0) -> bytes:
    return exposition(LakeMetrics(clusters), NOON + timedelta(seconds=age))


def test_each_metric_has_its_type_its_help_and_its_labels() -> None:
    found = text(cluster(lags=[GroupLag("billing", 5)]))
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    kinds = dict(re.findall(r"(?m)^# TYPE kafka_history_(\w+) (\w+)$", found.decode()))
    assert kinds == {
        each.name + ("_total" if each.kind == COUNTER else ""): each.kind for each in METRICS
    }
    assert len(re.findall(r"(?m)^# HELP kafka_history_\w+ \S", found.decode())) == len(METRICS)
    labels = {
        name: {label for series in of_name for label, _ in series}
        for name, of_name in samples(found).items()
    }
    for each in METRICS:
        name = each.name + ("_total" if each.kind == COUNTER else "")
        assert labels[name] == {"cluster", *each.labels}


def test_the_set_of_labels_is_closed_and_units_are_base_units() -> None:
    shown = {label for each in METRICS for label in each.labels}
    assert shown == {"level", "cause", "kind", "severity", "broker", "log_dir", "group"}
    for each in METRICS:
        assert ("broker" in each.labels) == (each.option == "brokers")
        assert "group" not in each.labels or each.option == "group_lag"
        assert not re.search(r"_(?:ms|s|minutes|hours|percent|total)(?:_|$)", each.name)
        assert each.name.endswith("_seconds") == ("Seconds" in each.says)
    assert len({each.name for each in METRICS}) == len(METRICS)


def test_names_that_hurt_are_one_label() -> None:
    found = samples(text(cluster(HOSTILE, lags=[GroupLag(HOSTILE, 7)])))
    assert of(found, "group_lag_records", cluster=HOSTILE, group=HOSTILE) == 7
    assert of(found, "brokers", cluster=HOSTILE) == 1
    assert "x" not in found


@pytest.mark.parametrize(
    ("age", "is_there"), [(0, True), (90, True), (90.001, False), (1e9, False)]
)
def test_a_cluster_that_nobody_observes_has_its_age_alone(*, age: float, is_there: bool) -> None:
    found = samples(text(cluster(lags=[GroupLag("billing", 5)]), age=age))
    assert of(found, "record_age_seconds", cluster="prod") == age
    assert (len(found) > 1) is is_there
    if not is_there:
        assert set(found) == {"record_age_seconds"}


def test_one_cluster_that_is_silent_takes_nothing_from_another() -> None:
    silent = cluster("far", NOON - timedelta(hours=1), [GroupLag("billing", 5)])
    found = samples(text(silent, cluster(lags=[GroupLag("audit", 6)])))
    assert {dict(labels)["cluster"] for name in found for labels in found[name]} == {"prod", "far"}
    assert [name for name in found if of(found, name, cluster="far") is not None] == [
        "record_age_seconds"
    ]
    assert of(found, "group_lag_records", cluster="prod", group="audit") == 6


def test_a_cluster_that_was_never_observed_is_infinitely_old() -> None:
    found = samples(text(cluster(until=None)))
    assert found == {"record_age_seconds": {frozenset({("cluster", "prod")}): math.inf}}


def test_an_observation_by_a_clock_that_is_ahead_is_not_negative() -> None:
    assert of(samples(text(cluster(), age=-5)), "record_age_seconds", cluster="prod") == 0


def test_at_most_a_thousand_groups_and_how_many_are_left_out() -> None:
    many = [GroupLag(f"g{n}", n) for n in range(MOST_GROUPS)]
    others = [GroupLag("a", MOST_GROUPS), GroupLag("b", 0), GroupLag("c", 1)]
    silent = cluster("far", NOON - timedelta(hours=1), [GroupLag("z", 10**9)])
    found = samples(text(silent, cluster(lags=others), cluster("test", lags=many)))
    lags = found["group_lag_records"]
    assert len(lags) == MOST_GROUPS == 1000
    # Of equal ones those of the first cluster.
    assert {dict(each)["group"] for each in lags} == {"a", "c", *(f"g{n}" for n in range(2, 1000))}
    assert found["group_lag_left_out"] == {
        frozenset({("cluster", "prod")}): 1,
        frozenset({("cluster", "test")}): 2,
    }


def test_lags_are_absent_where_nobody_has_asked_for_them_lately() -> None:
    known = cluster(lags=[GroupLag("billing", 5)], lag_until=NOON - timedelta(seconds=180))
    assert "group_lag_records" in samples(text(known))
    found = samples(text(known, age=1))
    assert ("brokers" in found, "group_lag_records" in found) == (True, False)
    assert "group_lag_left_out" not in found
    assert "group_lag_left_out" not in samples(text(replace(known, lag_known=None)))


def test_a_lake_without_clusters_is_empty() -> None:
    assert text() == b""
