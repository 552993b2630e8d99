"""Metrics of lakes of the known incident, as Prometheus' own parser reads them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from jobs.configuration.config import Config, parsed
from kafka_metadata_history.answers.metrics.declared import PREFIX
from tests.support.incident import at

Row = dict[str, Any]
Labels = frozenset[tuple[str, str]]


def config(clusters: Mapping[str, Mapping[str, str]], more: str = "") -> Config:
    """A configuration of these clusters, with their options."""
    lines = [f"lake: /lake\n{more}\nclusters:"]
    for number, (alias, options) in enumerate(clusters.items()):
        lines.append(f"  {alias}:\n    kafka.bootstrap.servers: host{number}:9092")
        lines += [f"    {name}: {value}" for name, value in options.items()]
    return parsed("\n".join(lines), "/config.yaml")


def samples(text: bytes) -> dict[str, dict[Labels, float]]:
    """Metric, without its prefix -> labels -> value."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            assert sample.name.startswith(PREFIX)
            of = found.setdefault(sample.name.removeprefix(PREFIX), {})
            labels = frozenset(sample.labels.items())
            assert labels not in of, f"{sample.name} {labels} twice"
            of[labels] = sample.value
    return found


def of(found: Mapping[str, Mapping[Labels, float]], name: str, **labels: str) -> float | None:
    """The value of one series; None: it is absent."""
    return found.get(name, {}).get(frozenset(labels.items()))


def time(seconds: float) -> datetime:
    """So long after noon."""
    found = at(seconds)
    assert found is not None
    return found
