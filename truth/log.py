"""The truth: what the records say that the controllers wrote to `__cluster_metadata`.

The records' meaning is Kafka's (org.apache.kafka.metadata.PartitionRegistration): a PartitionRecord
begins a partition at its leader epoch, a PartitionChangeRecord with a `leader` adds one to it, and
fields that it lacks stay as they were.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from local_cluster import LocalCluster
from local_cluster.controllers import active_controller, controller_terms
from truth.dump import LEADER_CHANGE, Record, TruthError, dump, records
from truth.model.states import (
    MIGRATING,
    BrokerState,
    ConfigChange,
    FeatureLevel,
    PartitionState,
    Term,
    TopicLife,
    Truth,
)

WHOLE_LOG = {
    # By time and by size: never a snapshot, after which the log before it could go.
    "metadata.log.max.snapshot.interval.ms": "0",
    "metadata.log.max.record.bytes.between.snapshots": str(2**40),
    "metadata.max.retention.bytes": "-1",
    "metadata.max.retention.ms": "-1",
}
"""Properties of a cluster whose metadata log is to be read whole."""

_RECOVERING = 1


def read_truth(cluster: LocalCluster) -> Truth:
    """The truth of a cluster that was started with the properties WHOLE_LOG and has settled."""
    # Of all controllers the active one alone has the log to its end for sure, and no end that no
    # other one has.
    _, active = active_controller(cluster)
    truth = truth_of(records(dump(cluster.kafka_version, _log_files(cluster, active)).splitlines()))
    became = controller_terms(cluster)
    truth.terms = [
        replace(term, controller_id=term.controller_id or became.get(term.epoch))
        for term in truth.terms
    ]
    return truth


def truth_of(log: Iterable[Record]) -> Truth:
    """Replay a log."""
    truth = Truth()
    for record in log:
        truth.ended_at = max(truth.ended_at, record.at)
        truth.counts[record.type] += 1
        replay = _REPLAYS.get(record.type)
        if replay is not None:
            replay(truth, record)
    truth.partitions.default_factory = None  # type: ignore[attr-defined]
    truth.brokers.default_factory = None  # type: ignore[attr-defined]
    return truth


def _topic(truth: Truth, record: Record) -> None:
    data = record.data
    truth.topics[data["topicId"]] = TopicLife(data["name"], data["topicId"], record.at, None)


def _remove_topic(truth: Truth, record: Record) -> None:
    topic_id = record.data["topicId"]
    truth.topics[topic_id] = replace(truth.topics[topic_id], deleted_at=record.at)


def _partition(truth: Truth, record: Record) -> None:
    data = record.data
    topic_id, partition = data["topicId"], data["partitionId"]
    truth.partitions[topic_id, partition].append(
        PartitionState(
            offset=record.offset,
            at=record.at,
            topic=truth.topics[topic_id].topic,
            topic_id=topic_id,
            partition=partition,
            leader=data["leader"],
            leader_epoch=data["leaderEpoch"],
            isr=_set(data["isr"]),
            replicas=tuple(data["replicas"]),
            adding=_set(data.get("addingReplicas")),
            removing=_set(data.get("removingReplicas")),
            elr=_set(data.get("eligibleLeaderReplicas")),
            last_known_elr=_set(data.get("lastKnownElr")),
            directories=_directories(data.get("directories"), len(data["replicas"])),
            recovering=data.get("leaderRecoveryState", 0) == _RECOVERING,
            names_leader=True,
        )
    )


def _partition_change(truth: Truth, record: Record) -> None:
    data = record.data
    states = truth.partitions[data["topicId"], data["partitionId"]]
    before = states[-1]
    # -2 is "no change"; the tool leaves out what is not set.
    names_leader = data.get("leader", -2) != -2
    recovery = data.get("leaderRecoveryState", -1)
    replicas = before.replicas if data.get("replicas") is None else tuple(data["replicas"])
    told = before.directories if data.get("directories") is None else data["directories"]
    states.append(
        replace(
            before,
            offset=record.offset,
            at=record.at,
            leader=data["leader"] if names_leader else before.leader,
            leader_epoch=before.leader_epoch + names_leader,
            isr=_changed(data.get("isr"), before.isr),
            replicas=replicas,
            adding=_changed(data.get("addingReplicas"), before.adding),
            removing=_changed(data.get("removingReplicas"), before.removing),
            elr=_changed(data.get("eligibleLeaderReplicas"), before.elr),
            last_known_elr=_changed(data.get("lastKnownElr"), before.last_known_elr),
            directories=_directories(told, len(replicas)),
            recovering=before.recovering if recovery == -1 else recovery == _RECOVERING,
            names_leader=names_leader,
        )
    )


def _clear_elr(truth: Truth, record: Record) -> None:
    name = record.data["topicName"]
    for states in truth.partitions.values():
        last = states[-1]
        lives = truth.topics[last.topic_id].deleted_at is None
        if lives and name in ("", last.topic) and (last.elr or last.last_known_elr):
            states.append(
                replace(
                    last,
                    offset=record.offset,
                    at=record.at,
                    elr=(),
                    last_known_elr=(),
                    names_leader=False,
                )
            )


def _register_broker(truth: Truth, record: Record) -> None:
    data = record.data
    truth.brokers[data["brokerId"]].append(
        BrokerState(
            offset=record.offset,
            at=record.at,
            broker_id=data["brokerId"],
            rack=data["rack"],
            registered=True,
            fenced=data.get("fenced", True),
            in_controlled_shutdown=data.get("inControlledShutdown", False),
        )
    )


def _unregister_broker(truth: Truth, record: Record) -> None:
    _change_broker(truth, record, record.data["brokerId"], registered=False)


def _broker_change(truth: Truth, record: Record) -> None:
    data = record.data
    changes = {}
    if fenced := data.get("fenced", 0):  # 1 fences, -1 unfences
        changes["fenced"] = fenced == 1
    if shutdown := data.get("inControlledShutdown", 0):
        changes["in_controlled_shutdown"] = shutdown == 1
    if changes:  # else it is of log directories
        _change_broker(truth, record, data["brokerId"], **changes)


def _fence_broker(truth: Truth, record: Record) -> None:
    _change_broker(truth, record, record.data["id"], fenced=True)


def _unfence_broker(truth: Truth, record: Record) -> None:
    _change_broker(truth, record, record.data["id"], fenced=False)


def _change_broker(truth: Truth, record: Record, broker_id: int, **changes: bool) -> None:
    states = truth.brokers[broker_id]
    states.append(replace(states[-1], offset=record.offset, at=record.at, **changes))


def _config(truth: Truth, record: Record) -> None:
    data = record.data
    truth.configs.append(
        ConfigChange(
            record.at, data["resourceType"], data["resourceName"], data["name"], data["value"]
        )
    )


def _feature_level(truth: Truth, record: Record) -> None:
    truth.features.append(
        FeatureLevel(record.offset, record.at, record.data["name"], record.data["featureLevel"])
    )


def _leader_change(truth: Truth, record: Record) -> None:
    truth.terms.append(
        Term(record.offset, record.at, record.data["epoch"], record.data["leaderId"])
    )


_REPLAYS = {
    LEADER_CHANGE: _leader_change,
    "TOPIC_RECORD": _topic,
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "PARTITION_RECORD": _partition,
    "PARTITION_CHANGE_RECORD": _partition_change,
    "CLEAR_ELR_RECORD": _clear_elr,
    "REGISTER_BROKER_RECORD": _register_broker,
    "UNREGISTER_BROKER_RECORD": _unregister_broker,
    "BROKER_REGISTRATION_CHANGE_RECORD": _broker_change,
    "FENCE_BROKER_RECORD": _fence_broker,
    "UNFENCE_BROKER_RECORD": _unfence_broker,
    "CONFIG_RECORD": _config,
    "FEATURE_LEVEL_RECORD": _feature_level,
}


def _set(brokers: Iterable[int] | None) -> tuple[int, ...]:
    return tuple(sorted(brokers or ()))


def _directories(told: Sequence[str] | None, replicas: int) -> tuple[str, ...]:
    """As the log has them. Before 3.7-IV2 the log has none."""
    return tuple(told) if {*(told or ())} - {MIGRATING} else (MIGRATING,) * replicas


def _changed(brokers: Iterable[int] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    """Null says that nothing changed; an empty list says none."""
    return before if brokers is None else _set(brokers)


def _log_files(cluster: LocalCluster, node_id: int) -> list[Path]:
    files = sorted((cluster.files(node_id).data / "__cluster_metadata-0").glob("*.log"))
    if not files:
        raise TruthError(f"node {node_id} has no metadata log in {cluster.files(node_id).data}")
    return files
