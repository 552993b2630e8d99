"""A cluster as its controllers' log has it (``MetadataImage``), and what each record changes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jobs.rules.log.records import BROKER, REMOVE_TOPIC, TOPIC, UNREGISTER_BROKER
from jobs.rules.log.registrations import (
    broker_of,
    changed,
    liveness,
    merged,
    partition_of,
    without_elr,
)
from jobs.rules.silver.intervals import Key
from jobs.rules.silver.state import Row

Thing = tuple[str, Key]
"""A thing of the cluster, by its kind and its key; it may have changed, have come, or be gone."""

A_BROKER, A_FEATURE, A_CONFIG, SETTINGS, A_TOPIC, A_PARTITION, LIVENESS = (
    *("broker", "feature", "config", "settings", "topic", "partition", "liveness"),
)
"""`settings`: those of a topic in effect. `liveness`: a partition's replicas that are offline."""

MIN_ISR, UNCLEAN = IN_EFFECT = ("min.insync.replicas", "unclean.leader.election.enable")
"""Configurations of topics whose values in effect silver keeps."""

_OF_ALL_BROKERS = ""
"""The name of the resource whose configurations hold for each broker."""


class Image:
    """The known state of a cluster: all of it, or all that some records can change and depend on.

    `brokers` by id. `topics` by name: the id and the number of partitions; `names` by topic id.
    `partitions` by topic and number. `configs`: values by resource (type and name) and name.
    `features`: levels by name.

    `static_configs`: by name, what topics have where no record sets it: the log does not tell,
    polls do.
    """

    def __init__(self, static_configs: Mapping[str, str | None] = MappingProxyType({})) -> None:
        self.static_configs = static_configs
        self.brokers: dict[int, Row] = {}
        self.topics: dict[str, Row] = {}
        self.names: dict[str, str] = {}
        self.partitions: dict[Key, Row] = {}
        self.configs: defaultdict[Key, dict[str, str | None]] = defaultdict(dict)
        self.features: dict[str, int] = {}

    def things(self) -> Iterator[Thing]:
        """All that there is."""
        yield from ((A_BROKER, (broker,)) for broker in self.brokers)
        yield from ((A_FEATURE, (name,)) for name in self.features)
        yield from (
            (A_CONFIG, (*resource, name))
            for resource, values in self.configs.items()
            for name in values
        )
        for topic in self.topics:
            yield from ((SETTINGS, (topic,)), (A_TOPIC, (topic,)))
        yield from ((A_PARTITION, key) for key in self.partitions)

    def replay(self, record: Mapping[str, Any]) -> Iterable[Thing]:
        """Apply a record (``MetadataDelta.replay``), and return the things that it may have
        changed.

        Records of other types, and those that could not be decoded, change nothing that is kept;
        nor does a change of a thing that is not there.
        """
        if (change := record["partition_change"]) is not None:
            return self._change_partition(change)
        if (partition := record["partition"]) is not None:
            return self._add_partition(partition)
        if (config := record["config"]) is not None:
            return self._configure(config)
        if (feature := record["feature"]) is not None:
            return self._finalize(feature)
        if (broker := record["broker"]) is not None:
            return self._set_broker(broker["broker_id"], broker_of(broker))
        if (change := record["broker_change"]) is not None:
            return self._change_broker(record["type"], change)
        if (topic := record["topic"]) is not None:
            return self._take_topic(record["type"], topic)
        return ()

    def effective(self, topic: str, name: str) -> str | None:
        """The value of a topic's configuration: its own, or else that of all brokers, or else what
        polls told of the brokers' files.

        None where nobody tells it: a broker has one of its own, or no poll asked.
        """
        own = self.configs.get((TOPIC, topic), {}).get(name)
        if own is not None:
            return own
        default = self.configs.get((BROKER, _OF_ALL_BROKERS), {}).get(name)
        of_one = (
            values for (kind, broker), values in self.configs.items() if kind == BROKER and broker
        )
        if any(name in values for values in of_one):
            return None
        return self.static_configs.get(name) if default is None else default

    def _change_partition(self, change: Mapping[str, Any]) -> Iterable[Thing]:
        key = (self.names.get(change["topic_id"]), change["partition"])
        before = self.partitions.get(key)
        if before is None:
            return ()
        self.partitions[key] = merged(before, change)
        return ((A_PARTITION, key),)

    def _add_partition(self, record: Mapping[str, Any]) -> Iterable[Thing]:
        """``TopicDelta.replay(PartitionRecord)``."""
        topic = self.names.get(record["topic_id"])
        if topic is None:
            return ()
        key = (topic, record["partition"])
        if key not in self.partitions:
            self._set_topic(topic, record["topic_id"], self.topics[topic]["partition_count"] + 1)
        self.partitions[key] = partition_of(record)
        return ((A_TOPIC, (topic,)), (A_PARTITION, key))

    def _configure(self, config: Mapping[str, Any]) -> Iterable[Thing]:
        """``ConfigurationDelta.replay``: without a value it is unset. A value that is not kept is
        None, but set.
        """
        resource, name = (config["resource_type"], config["resource_name"]), config["name"]
        if config["is_removed"]:
            self.configs[resource].pop(name, None)
        else:
            self.configs[resource][name] = config["value"]
        things: list[Thing] = [(A_CONFIG, (*resource, name))]
        if name in IN_EFFECT:
            topics = (
                [resource[1]]
                if resource[0] == TOPIC
                else self.topics
                if resource[0] == BROKER
                else ()
            )
            things += [(SETTINGS, (topic,)) for topic in topics]
        return things

    def _finalize(self, feature: Mapping[str, Any]) -> Iterable[Thing]:
        """``FeaturesDelta.replay``: level 0 is none."""
        if feature["level"]:
            self.features[feature["name"]] = feature["level"]
        else:
            self.features.pop(feature["name"], None)
        return ((A_FEATURE, (feature["name"],)),)

    def _change_broker(self, record_type: int, change: Mapping[str, Any]) -> Iterable[Thing]:
        broker = self.brokers.get(change["broker_id"])
        after = (
            None if broker is None or record_type == UNREGISTER_BROKER else changed(broker, change)
        )
        return self._set_broker(change["broker_id"], after)

    def _set_broker(self, broker: int, after: Row | None) -> Iterable[Thing]:
        """``ClusterDelta``: None unregisters it."""
        before = self.brokers.pop(broker, None)
        if after is not None:
            self.brokers[broker] = after
        things: list[Thing] = [(A_BROKER, (broker,))]
        if liveness(before) != liveness(after):
            things += [
                (LIVENESS, key) for key, of in self.partitions.items() if broker in of["replicas"]
            ]
        return things

    def _take_topic(self, record_type: int, topic: Mapping[str, Any]) -> Iterable[Thing]:
        if record_type == REMOVE_TOPIC:
            return self._remove_topic(topic["topic_id"])
        if topic["topic_id"] is None:
            return self._clear_elr(topic["topic"])
        self._set_topic(topic["topic"], topic["topic_id"], 0)
        return ((SETTINGS, (topic["topic"],)), (A_TOPIC, (topic["topic"],)))

    def _set_topic(self, topic: str, topic_id: str, partitions: int) -> None:
        self.names[topic_id] = topic
        self.topics[topic] = {"topic_id": topic_id, "partition_count": partitions}

    def _remove_topic(self, topic_id: str) -> Iterable[Thing]:
        """``TopicsDelta`` and ``ConfigurationsDelta``: its configurations go with it."""
        topic = self.names.pop(topic_id, None)
        if topic is None:
            return ()
        del self.topics[topic]
        of_topic = [key for key in self.partitions if key[0] == topic]
        for key in of_topic:
            del self.partitions[key]
        set_by_name = self.configs.pop((TOPIC, topic), {})
        return (
            *((A_CONFIG, (TOPIC, topic, name)) for name in set_by_name),
            *((SETTINGS, (topic,)), (A_TOPIC, (topic,))),
            *((A_PARTITION, key) for key in of_topic),
        )

    def _clear_elr(self, topic: str) -> Iterable[Thing]:
        """``TopicsDelta.replay(ClearElrRecord)``: of one topic, or of all where it names none."""
        things: list[Thing] = []
        for key, before in self.partitions.items():
            if topic in ("", key[0]) and (after := without_elr(before)) is not before:
                things.append((A_PARTITION, key))
                self.partitions[key] = after
        return things
