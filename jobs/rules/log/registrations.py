"""Kafka's rules of replay of one partition and one broker, and which of their replicas are offline.

A partition is a row with the fields of a PartitionRecord, a broker one with those of a
RegisterBrokerRecord (metadata_source/protocol/cluster_records.py). Rows are never changed, they are
replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.rules.silver.state import Row
from jobs.rules.silver.topic_lives import GONE

_CHANGED = (
    "replicas",
    "isr",
    "removing_replicas",
    "adding_replicas",
    "leader_recovery_state",
    "elr",
    "last_known_elr",
)
"""Fields of a PartitionChangeRecord that take the place of those before; null leaves them."""

#: ``DirectoryId``. A replica without a directory, since the cluster is older (MIGRATING), is null.
_UNASSIGNED, _LOST = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"

_NO_ELR: Row = dict.fromkeys((*_CHANGED, "leader", "directories")) | {
    "elr": [],
    "last_known_elr": [],
}


def partition_of(record: Mapping[str, Any]) -> Row:
    """A partition as a PartitionRecord begins it, or tells it whole (``PartitionRegistration``)."""
    return {
        **record,
        "leader_recovery_state": record["leader_recovery_state"] or 0,
        "directories": record["directories"] or [None] * len(record["replicas"]),
        "elr": record["elr"] or [],
        "last_known_elr": record["last_known_elr"] or [],
    }


def merged(before: Row, change: Mapping[str, Any]) -> Row:
    """A partition after a PartitionChangeRecord (``PartitionRegistration.merge``).

    Any record that names a leader raises the leader epoch by one, the same leader too.
    """
    after = before | {name: change[name] for name in _CHANGED if change[name] is not None}
    after["partition_epoch"] += 1
    if change["leader"] is not None:
        after["leader"] = change["leader"]
        after["leader_epoch"] += 1
    directories = before["directories"] if change["directories"] is None else change["directories"]
    # Controllers tell directories with replicas from 3.7-IV2 on, and there are none before.
    after["directories"] = directories if any(directories) else [None] * len(after["replicas"])
    return after


def without_elr(before: Row) -> Row:
    """A partition after a ClearElrRecord (``TopicDelta.maybeClearElr``): as it was without ELR."""
    return merged(before, _NO_ELR) if before["elr"] or before["last_known_elr"] else before


def broker_of(record: Mapping[str, Any]) -> Row:
    """A broker as a RegisterBrokerRecord tells it (``BrokerRegistration.fromRecord``)."""
    return {
        "broker_epoch": record["broker_epoch"],
        "incarnation_id": record["incarnation_id"],
        "rack": record["rack"],
        "is_fenced": bool(record["fenced"]),
        "in_controlled_shutdown": bool(record["in_controlled_shutdown"]),
        "log_dirs": sorted(record["log_dirs"] or ()),
    }


def changed(before: Row, change: Mapping[str, Any]) -> Row:
    """A broker after a Fence-, Unfence- or BrokerRegistrationChangeRecord (``ClusterDelta``)."""
    after = dict(before)
    if change["fenced"] is not None:
        after["is_fenced"] = change["fenced"] > 0
    if change["in_controlled_shutdown"] is not None:
        after["in_controlled_shutdown"] = change["in_controlled_shutdown"] > 0
    if change["log_dirs"]:
        after["log_dirs"] = sorted(change["log_dirs"])
    return after


def offline_replicas(partition: Row, brokers: Mapping[int, Row]) -> list[int]:
    """The replicas that are not available, sorted (``KRaftMetadataCache.getOfflineReplicas``):
    their broker is fenced, or not registered, or their directory is lost or offline. One whose
    broker lacks a client's listener is offline for that client alone.
    """
    placed = zip(partition["replicas"], partition["directories"], strict=True)
    return sorted(
        replica
        for replica, directory in placed
        if (broker := brokers.get(replica)) is None
        or broker["is_fenced"]
        or _is_offline(broker, directory)
    )


def _is_offline(broker: Row, directory: str | None) -> bool:
    """``DirectoryId.isOnline``, negated. A broker that knows no directories has none offline."""
    known = broker["log_dirs"]
    if directory in known or directory is None or directory == _UNASSIGNED:
        return False
    return directory == _LOST or bool(known)


def listed(registrations: Sequence[Row]) -> list[Row]:
    """Registrations as rows of silver.broker_snapshots: a broker that is fenced is gone."""
    fenced = {(row["broker_id"], row["first_poll"]) for row in registrations if row["is_fenced"]}
    return [
        row
        | {
            "end_reason": GONE
            if (row["broker_id"], row["superseded_poll"]) in fenced
            else row["end_reason"]
        }
        for row in registrations
        if not row["is_fenced"]
    ]


def liveness(broker: Row | None) -> tuple[bool, list[str]]:
    """The part of a broker on which it depends whether replicas are offline."""
    return (True, []) if broker is None else (broker["is_fenced"], broker["log_dirs"])
