"""Transactions asked of coordinators in memory."""

from typing import Any

import pyarrow as pa

from metadata_source.columns.polls import POLLS
from metadata_source.enrichment import Subject
from metadata_source.many_brokers import Broker
from metadata_source.offsets import Wanted
from metadata_source.options import TopicFilter
from tests.support.beside import answered
from tests.support.coordinators import Cluster

NOT_TWICE = "failed: not all partitions were asked twice yet for their last stable offset"
NOBODY_KNOWS = {"is_hanging": True, "error": NOT_TWICE}
LEADERS = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("leader", pa.int32())])


def about(cluster: Cluster, leaders: dict[tuple[str, int], int] | None = None) -> Subject:
    rows = [
        {"topic": topic, "partition": number, "leader": leader}
        for (topic, number), leader in (leaders or {}).items()
    ]
    wanted = Wanted(pa.Table.from_pylist(rows, LEADERS), TopicFilter())
    brokers = tuple(Broker(number, address) for number, address in enumerate(cluster.nodes))
    return Subject(("transactions",), [], [], brokers, offsets=wanted)


def told(cluster: Cluster, subject: Subject | None = None) -> tuple[str, list[dict[str, Any]]]:
    """The outcome, and the transactions without nulls."""
    outcome, rows = answered("transactions", subject or about(cluster), cluster)
    if rows is None:
        return outcome, []
    assert rows.topics is None
    array = pa.array(rows.values, POLLS.field("transactions").type)
    array.validate(full=True)
    return outcome, [
        {name: value for name, value in each.items() if value is not None}
        for row in array.to_pylist()
        for each in row
    ]


def ids(found: list[dict[str, Any]]) -> list[str]:
    """Of those that were described."""
    return [
        each["transactional_id"]
        for each in found
        if "transactional_id" in each and "error" not in each
    ]


def requests(cluster: Cluster, name: str) -> list[tuple[int, dict[str, Any]]]:
    return [(number, values) for number, asked, values in cluster.asked if asked == name]
