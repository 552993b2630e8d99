"""Things of an image as rows of silver, and an image of rows of silver."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from jobs.rules.log.image import (
    A_BROKER,
    A_CONFIG,
    A_FEATURE,
    A_PARTITION,
    A_TOPIC,
    IN_EFFECT,
    LIVENESS,
    SETTINGS,
    Image,
)
from jobs.rules.log.registrations import offline_replicas
from jobs.rules.silver.enrichments import settings_of
from jobs.rules.silver.intervals import Key
from jobs.rules.silver.state import Row
from metadata_source.kafka_constants import LEADER_NOT_AVAILABLE
from metadata_source.kinds import KAFKA, KINDS
from schemas import silver
from schemas.table import Table

METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
_INTERNAL: Final = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
"""``Topic.isInternal``."""
_NO_LEADER: Final = -1
_RECOVERING: Final = 1
"""``LeaderRecoveryState``."""
_LEVELS = ("metadata_version_level", "elr_version_level")
_REGISTERED = (
    "partition_epoch",
    "leader",
    "leader_epoch",
    "replicas",
    "isr",
    "adding_replicas",
    "removing_replicas",
    *("elr", "last_known_elr"),
)


def _broker(image: Image, key: Key) -> Row | None:
    return image.brokers.get(key[0])


def _feature(image: Image, key: Key) -> Row | None:
    level = image.features.get(key[0])
    return None if level is None else {"level": level}


def _config(image: Image, key: Key) -> Row | None:
    values = image.configs.get(key[:2], {})
    return {"value": values[key[2]]} if key[2] in values else None


def _topic_config(image: Image, key: Key) -> Row | None:
    topic = key[0]
    return (
        settings_of({name: image.effective(topic, name) for name in IN_EFFECT})
        if topic in image.topics
        else None
    )


def _topic(image: Image, key: Key) -> Row | None:
    topic = image.topics.get(key[0])
    return topic and {"error_code": 0, "is_internal": key[0] in _INTERNAL, **topic}


def _partition(image: Image, key: Key) -> Row | None:
    of = image.partitions.get(key)
    return of and {
        "topic_id": of["topic_id"],
        "error_code": LEADER_NOT_AVAILABLE if of["leader"] == _NO_LEADER else 0,
        "leader": of["leader"],
        "leader_epoch": of["leader_epoch"],
        "replicas": of["replicas"],
        "isr": sorted(of["isr"]),
        "offline_replicas": offline_replicas(of, image.brokers),
    }


def registered(image: Image, key: Key) -> Row:
    """All of a partition that may change within a state of silver.partition_registrations."""
    return {name: image.partitions[key][name] for name in _REGISTERED}


def _registration(image: Image, key: Key) -> Row | None:
    of = image.partitions.get(key)
    return of and {
        "topic_id": of["topic_id"],
        "is_recovering": of["leader_recovery_state"] == _RECOVERING,
        "directories": of["directories"],
    }


def _reassignment(image: Image, key: Key) -> Row | None:
    return _not_empty(image, key, "adding_replicas", "removing_replicas")


def _elr(image: Image, key: Key) -> Row | None:
    return _not_empty(image, key, "elr", "last_known_elr")


def _not_empty(image: Image, key: Key, *names: str) -> Row | None:
    of = image.partitions.get(key)
    return (
        {name: sorted(of[name]) for name in names}
        if of and any(of[name] for name in names)
        else None
    )


TableState = tuple[Table, Callable[[Image, Key], Row | None]]
"""A table with the state of one of its things, None where there is no such thing."""

TABLES_OF: Final[Mapping[str, tuple[TableState, ...]]] = {
    A_BROKER: ((silver.BROKER_REGISTRATIONS, _broker),),
    A_FEATURE: ((silver.FEATURES, _feature),),
    A_CONFIG: ((silver.CONFIGS, _config),),
    SETTINGS: ((silver.TOPIC_CONFIGS, _topic_config),),
    A_TOPIC: ((silver.TOPIC_SNAPSHOTS, _topic),),
    A_PARTITION: (
        (silver.PARTITION_SNAPSHOTS, _partition),
        (silver.PARTITION_REGISTRATIONS, _registration),
        (silver.REASSIGNMENTS, _reassignment),
        (silver.PARTITION_ELR, _elr),
    ),
    LIVENESS: ((silver.PARTITION_SNAPSHOTS, _partition),),
}
"""Kind of thing -> the tables that have it under its key."""

DERIVED: Final[Mapping[Table, frozenset[str]]] = {
    silver.TOPIC_SNAPSHOTS: frozenset({"partition_count"}),
    silver.PARTITION_SNAPSHOTS: frozenset({"offline_replicas"}),
    silver.TOPIC_CONFIGS: frozenset({"min_insync_replicas", "unclean_leader_election_enable"}),
    silver.CLUSTER_SNAPSHOTS: frozenset(_LEVELS),
}
"""Columns of no one record: a batch makes one value, for nobody is ever shown a part of it."""

TABLES: Final = (
    silver.CLUSTER_SNAPSHOTS,
    silver.FEATURES,
    silver.BROKER_REGISTRATIONS,
    silver.CONFIGS,
    silver.TOPIC_CONFIGS,
    *(silver.TOPIC_SNAPSHOTS, silver.PARTITION_SNAPSHOTS, silver.PARTITION_REGISTRATIONS),
    *(silver.REASSIGNMENTS, silver.PARTITION_ELR),
)
"""The tables of states over time that the log tells. Those of silver.OF_LOG it tells at all times,
the others while polls do not.
"""


def levels(image: Image, known: Mapping[str, Any] | None) -> Row:
    """The cluster's state in silver.cluster_snapshots. `known`: its open row. Only clusters of
    Kafka's kind have a log.

    The log tells all features, so one without a level has level 0; but before 3.3 metadata.version
    is in no record. Of the software of brokers it tells nothing that is kept.
    """
    of_kafka = {"kind": KAFKA, "not_meaningful": KINDS[KAFKA].reasons}
    return {
        "metadata_version_level": image.features.get(METADATA_VERSION),
        "metadata_version_highest": None,
        "elr_version_level": image.features.get(ELR_VERSION, 0),
        **(of_kafka if known is None else {name: known[name] for name in of_kafka}),
    }


def image_of(
    live: Mapping[str, Sequence[Mapping[str, Any]]],
    static_configs: Mapping[str, str | None] = MappingProxyType({}),
    *,
    tells: bool = True,
) -> Image:
    """The image that open rows of silver show, by table: all of it, or a part. Polls may have told
    the rows of topics: if the log does not tell them, all rows are needed.
    """
    image = Image(static_configs)

    def rows(table: Table) -> Iterable[Mapping[str, Any]]:
        return live.get(table.full_name, ())

    for row in rows(silver.BROKER_REGISTRATIONS):
        names = (
            "broker_epoch",
            "incarnation_id",
            "rack",
            "is_fenced",
            "in_controlled_shutdown",
            "log_dirs",
        )
        image.brokers[row["broker_id"]] = {name: row[name] for name in names}
    for row in rows(silver.FEATURES):
        image.features[row["name"]] = row["level"]
    for row in rows(silver.CONFIGS):
        image.configs[row["resource_type"], row["resource_name"]][row["name"]] = row["value"]
    for row in rows(silver.PARTITION_REGISTRATIONS):
        partition = {name: row[name] for name in ("topic_id", "directories", *_REGISTERED)}
        partition["leader_recovery_state"] = int(row["is_recovering"])
        image.partitions[row["topic"], row["partition"]] = partition
    # Of topics that polls do not ask for there are partitions alone.
    counts = dict(Counter((topic, of["topic_id"]) for (topic, _), of in image.partitions.items()))
    if tells:
        counts |= {
            (row["topic"], row["topic_id"]): row["partition_count"]
            for row in rows(silver.TOPIC_SNAPSHOTS)
        }
    for (topic, topic_id), count in counts.items():
        image.names[topic_id] = topic
        image.topics[topic] = {"topic_id": topic_id, "partition_count": count}
    return image
