"""Brokers that listen, and watchers of a log of theirs."""

from collections.abc import Iterator

import pytest

from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.options import parse_group_log
from tests.support.group_log import log_of
from tests.support.log_brokers import TOPIC, Brokers, Make


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    with made.listening():
        yield made


@pytest.fixture
def watcher(brokers: Brokers) -> Iterator[Make]:
    made: list[LogWatcher] = []

    def one() -> LogWatcher:
        cluster = parse_group_log({"kafka.bootstrap.servers": brokers.nodes.servers}).clusters[0]
        made.append(LogWatcher(cluster, TOPIC, 20_000, log_of(TOPIC).has_news))
        return made[-1]

    yield one
    for each in made:
        each.close()
