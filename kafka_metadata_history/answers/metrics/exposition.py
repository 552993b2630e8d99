"""The text that Prometheus reads, of a state that was read before. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from kafka_metadata_history.answers.metrics.declared import (
    COUNTER,
    LAG,
    LAG_LEFT_OUT,
    METRICS,
    MOST_GROUPS,
    RECORD_AGE,
    Sample,
)
from kafka_metadata_history.answers.metrics.read import read_state
from metadata_source.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from prometheus_client import Metric

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.metrics.state import ClusterMetrics, LakeMetrics
    from kafka_metadata_history.answers.questions import Ask

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
"""Of what `exposition` returns."""


def metrics_of(
    ask: Ask, config: Config, now: datetime, *, brokers: bool = False, group_lag: bool = False
) -> bytes:
    """Read the state of one version of a lake, and return its metrics as of `now`. Raises LakeError
    and QueryError, as `ask` does.
    """
    return exposition(read_state(ask, config, brokers=brokers, group_lag=group_lag), now)


def exposition(state: LakeMetrics, now: datetime) -> bytes:
    """Return the metrics of a state as of `now`, of CONTENT_TYPE. A cluster whose last good
    observation is too old has its age alone.
    """
    return ages(state, now) + body(state, observed(state, now))


class Observed(NamedTuple):
    """The clusters whose state, and those whose lags, are new enough."""

    clusters: frozenset[str]
    lags: frozenset[str]


def observed(state: LakeMetrics, now: datetime) -> Observed:
    """Return which clusters are observed at `now`."""
    known = [each for each in state.clusters if each.known.counts(now)]
    lags = [each for each in known if each.lag_known and each.lag_known.counts(now)]
    return Observed(
        frozenset(each.cluster for each in known), frozenset(each.cluster for each in lags)
    )


def ages(state: LakeMetrics, now: datetime) -> bytes:
    """Return how old the newest observation of each cluster is: what changes with time alone."""
    found = []
    for each in state.clusters:
        until = each.known.until
        age = math.inf if until is None else max(0.0, (now - until).total_seconds())
        found.append((each.cluster, Sample(RECORD_AGE, (), age)))
    return _text(found)


def body(state: LakeMetrics, of: Observed) -> bytes:
    """Return all other metrics of the clusters that are observed, and what a lake of an older
    version lacks as comments, which Prometheus passes over.
    """
    found = [
        (each.cluster, sample)
        for each in state.clusters
        if each.cluster in of.clusters
        for sample in each.samples
    ]
    found += _lags([each for each in state.clusters if each.cluster in of.lags])
    comments = "".join(f"# Not known: {printable(each)}\n" for each in state.lacks)
    return comments.encode() + _text(found)


def _text(samples: Iterable[tuple[str, Sample]]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Of(samples))
    return generate_latest(registry)


class _Of(Collector):
    def __init__(self, samples: Iterable[tuple[str, Sample]]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        """Yield each metric that has a value."""
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for each in METRICS:
            of = CounterMetricFamily if each.kind == COUNTER else GaugeMetricFamily
            families[each.name] = of(each.full_name, each.says, labels=("cluster", *each.labels))
        for cluster, sample in self._samples:
            families[sample.metric.name].add_metric((cluster, *sample.labels), sample.value)
        yield from (each for each in families.values() if each.samples)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: a registry of one collector has no names to compare."""
        yield from ()


def _lags(clusters: Sequence[ClusterMetrics]) -> Iterator[tuple[str, Sample]]:
    """Yield the largest lags, and how many groups of each cluster are left out."""
    all_of = [(lag.records, each.cluster, lag.group) for each in clusters for lag in each.lags]
    largest = sorted(all_of, key=lambda lag: (-lag[0], lag[1], lag[2]))[:MOST_GROUPS]
    for records, cluster, group in largest:
        yield cluster, Sample(LAG, (group,), records)
    shown = Counter(cluster for _, cluster, _ in largest)
    for each in clusters:
        yield each.cluster, Sample(LAG_LEFT_OUT, (), len(each.lags) - shown[each.cluster])
