"""Each version of Kafka answers the questions that docs/versions.md says it does, and the log of
its transaction coordinators is read.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local_cluster import LocalCluster
from metadata_source.columns.transaction_log import SCHEMA
from metadata_source.enrichment import subject
from metadata_source.kafka_constants import TRANSACTIONS_TOPIC
from metadata_source.logs.tasks import spans
from metadata_source.logs.topic.positions import advance, found
from metadata_source.logs.topic.watcher import LogWatcher
from metadata_source.logs.transaction.log import TransactionLog
from metadata_source.options import parse, parse_transaction_log
from metadata_source.options.readers import ENRICHMENTS
from metadata_source.poller import Poller
from tests.support.beside import Beside, ask_beside
from truth.compare_answers import KINDS
from truth.setups import Setup
from truth.versions import VERSIONS

PROPERTIES = {
    f"{log}.{name}": "1"
    for log in ("transaction.state.log", "offsets.topic")
    for name in ("num.partitions", "replication.factor")
} | {"transaction.state.log.min.isr": "1"}
SETUPS = {(each.kafka_version, each.zookeeper): each for each in reversed(VERSIONS)}
"""The first of those that differ in their protocol alone."""


@pytest.mark.soak
@pytest.mark.parametrize("setup", SETUPS.values(), ids=lambda each: each.name)
def test_a_version_answers_what_is_said_of_it(setup: Setup) -> None:
    with LocalCluster(
        1, kafka_version=setup.kafka_version, zookeeper=setup.zookeeper, properties=PROPERTIES
    ) as cluster:
        servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
        still_open = transact(cluster.bootstrap_servers)
        told, counts = asked(servers), counted(servers)
        still_open.abort_transaction(30)
    ok = {kind for kind, outcome in told.outcomes.items() if outcome.startswith("ok")}
    assert ok & {*KINDS, "transactions", "quorum"} == {*setup.kinds}
    (sizes,) = told.rows["log_dirs"].beside["log_dir_sizes"].to_pylist()
    has_volume = tuple(map(int, setup.kafka_version.split("."))) >= (3, 3)
    assert any(each["usable_bytes"] is not None for each in sizes) is has_volume
    assert counts == {"begun": 3, "committed": 1, "aborted_by_client": 1}


def transact(servers: str) -> Producer:
    """Commit a transaction, abort one and leave one open; returns its producer."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "app-1"})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce("orders", b"")
        assert producer.flush(30) == 0
        if end is not None:
            end(30)
    return producer


def asked(servers: Mapping[str, str]) -> Beside:
    """Ask all that can be asked beside a poll."""
    options = parse({**servers, "enrich": ",".join(ENRICHMENTS)})
    with closing(Poller(options.clusters[0], options.topic_filter, 20_000)) as poller:
        poll = poller.poll()
        assert poll.metadata is not None, poll.error
        return ask_beside(poller, subject(tuple(ENRICHMENTS), poll.metadata), 30_000)


def counted(servers: Mapping[str, str]) -> dict[str, Any]:
    """Read the log from its begin; what its transactions came to."""
    options = parse_transaction_log({**servers})
    log, (of,) = TransactionLog(options, TRANSACTIONS_TOPIC), options.clusters
    with closing(LogWatcher(of, TRANSACTIONS_TOPIC, 10_000)) as watcher:
        seen = watcher.ask_extent(None)
    start = found(seen, seen.begins)
    between = list(spans({"default": start}, {"default": advance(start, seen)}))
    batches = list(log.rows(of, between, datetime.now(UTC), time.sleep))
    (row,) = (
        row
        for row in pa.Table.from_batches(batches, SCHEMA).to_pylist()
        if row["record"] == "transactions"
    )
    return {name: row[name] for name in ("begun", "committed", "aborted_by_client")}
