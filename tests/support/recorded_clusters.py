"""Clusters of byte brokers with two topics and two groups, and their recorder."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from metadata_source import poller
from metadata_source.options import parse
from metadata_source.recorder.beat import Beat
from metadata_source.recorder.fleet import Fleet
from tests.support.byte_cluster import OFFSETS, ByteCluster
from tests.support.kept import Kept

TOPICS = {
    "orders": [(5, (0, 1, 2))],
    "payments": [(3, (1, 2, 0))],
    OFFSETS: [(1, (0, 1, 2)), (1, (1, 2, 0))],
}
ALL = ("groups", "offsets", "configs", "reassignments")


@contextmanager
def two_groups() -> Iterator[ByteCluster]:
    """Three brokers, of which two coordinate a group each."""
    with ByteCluster(3, **TOPICS) as found:
        found.brokers[0].groups, found.brokers[1].groups = ("billing",), ("shipping",)
        yield found


def changed(brokers: ByteCluster, epoch: int = 6) -> None:
    brokers.set(brokers.made(**TOPICS | {"orders": [(epoch, (1, 2))]}))


@contextmanager
def recorded(
    kept: Kept, *clusters: ByteCluster, is_once: bool = False, kind_ms: int = 60_000, **given: str
) -> Iterator[Fleet]:
    """Clusters c0, c1, ... on a beat of a second, or as given. `kind_ms`: the time that a question
    has. Polls have time enough, however busy the machine is.
    """
    of_each = {
        f"c{n}": {"kafka.bootstrap.servers": each.servers()} for n, each in enumerate(clusters)
    }
    options = parse(
        {"clusters": json.dumps(of_each), "pollInterval": "1s", "requestTimeout": "60s"} | given,
        "stream",
    )
    polling = {
        alias: replace(each, enrich_timeout_ms=kind_ms) for alias, each in options.polling.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(poller, "_PATIENCE", 100.0)
        patch.setattr(poller, "_LONGEST", 100.0)
        fleet = Fleet(replace(options, polling=polling), kept, is_once=is_once)
    fleet.begin()
    try:
        yield fleet
    finally:
        fleet.end()


def hang(brokers: ByteCluster, *requests: str) -> None:
    """Let all brokers give no answer to these requests."""
    for broker in brokers.brokers:
        broker.hangs_on = frozenset(requests)


def answer(brokers: ByteCluster) -> None:
    """Let brokers that hang answer to what they are asked once more, over other connections."""
    hang(brokers)
    for broker in brokers.brokers:
        brokers.hang_up(broker.broker_id)


def wait_for_answers(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let entries wait for so long for the answers beside their polls."""
    patch.setattr(Beat, "answers_until", lambda _, __, now_s: now_s + seconds)
