"""Which live rows the replay of some records needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.rules.log.image import IN_EFFECT
from jobs.rules.log.records import BROKER, REMOVE_TOPIC, TOPIC, Record


@dataclass(frozen=True)
class Needed:
    """Keys of the live rows that may matter to a fold.

    Needed always: the rows of silver.cluster_snapshots, features and broker_registrations, and those of configs that
    are not a topic's. `is_all`: all others too. Else: `partitions`, by topic id and number, each with its topic.
    `topics`, by topic id, with all their partitions. `names`: topics by name, with all their partitions. `brokers`:
    partitions with a replica on one of them. `is_each_topic`: silver.topic_snapshots, topic_configs and configs whole.
    A topic's rows are those of its name in configs (resource type 2) too.
    """

    partitions: set[tuple[str, int]]
    topics: set[str]
    names: set[str]
    brokers: set[int]
    is_each_topic: bool
    is_all: bool


def needed(records: Sequence[Record]) -> Needed:
    """What `fold` needs for these records, and perhaps more: whether they change anything is not known here."""

    def told(*names: str) -> list[Any]:
        return [record[name] for name in names for record in records if record[name] is not None]

    configs, topics = told("config"), [(record["type"], record["topic"]) for record in records if record["topic"]]
    named = {topic["topic"] for _, topic in topics} - {None}
    return Needed(
        {(of["topic_id"], of["partition"]) for of in told("partition_change", "partition")},
        {topic["topic_id"] for record_type, topic in topics if record_type == REMOVE_TOPIC},
        named | {config["resource_name"] for config in configs if config["resource_type"] == TOPIC},
        {of["broker_id"] for of in told("broker", "broker_change")},
        any(config["resource_type"] == BROKER and config["name"] in IN_EFFECT for config in configs),
        # A ClearElrRecord without a topic is about all.
        "" in named or any(record["record"] == "snapshot" for record in records),
    )
