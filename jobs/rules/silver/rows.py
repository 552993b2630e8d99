"""Rows of tables of silver, as rules make them: without what Delta computes."""

from datetime import datetime
from typing import TypedDict


class OfCluster(TypedDict):
    """The cluster of a row of any table."""

    cluster_id: str
    cluster: str


class Began(TypedDict):
    """When something began, and which source showed it."""

    poll: str
    source: str
    began_after: datetime | None
    began_before: datetime


class Interval(OfCluster):
    """A state of one thing over time. Polls may be records of the controllers' log."""

    first_poll: str
    valid_from: datetime
    prev_poll: str | None
    prev_sent_at: datetime | None
    interval_ms: int | None
    from_offset: int | None
    last_poll: str | None
    last_seen_at: datetime | None
    last_seen_sent_at: datetime | None
    superseded_poll: str | None
    valid_to: datetime | None
    to_offset: int | None
    end_reason: str | None


class ClusterSnapshot(Interval):
    """silver.cluster_snapshots."""

    metadata_version_level: int | None
    metadata_version_highest: int | None
    elr_version_level: int | None
    kind: str
    not_meaningful: list[str]
    prev_metadata_version_level: int | None
    prev_metadata_version_highest: int | None
    prev_elr_version_level: int | None
    prev_kind: str | None
    prev_not_meaningful: list[str] | None


class BrokerSnapshot(Interval):
    """silver.broker_snapshots."""

    broker_id: int
    host: str | None
    port: int | None
    rack: str | None
    prev_host: str | None
    prev_port: int | None
    prev_rack: str | None


class TopicConfig(Interval):
    """silver.topic_configs."""

    topic: str
    min_insync_replicas: int | None
    unclean_leader_election_enable: bool | None
    prev_min_insync_replicas: int | None
    prev_unclean_leader_election_enable: bool | None


class Reassignment(Interval):
    """silver.reassignments."""

    topic: str
    partition: int
    adding_replicas: list[int] | None
    removing_replicas: list[int] | None
    prev_adding_replicas: list[int] | None
    prev_removing_replicas: list[int] | None


class PartitionElr(Interval):
    """silver.partition_elr."""

    topic: str
    partition: int
    elr: list[int] | None
    last_known_elr: list[int] | None
    prev_elr: list[int] | None
    prev_last_known_elr: list[int] | None


class PartitionSnapshot(Interval):
    """silver.partition_snapshots."""

    topic: str
    topic_id: str | None
    partition: int
    error_code: int | None
    leader: int | None
    leader_epoch: int | None
    replicas: list[int] | None
    isr: list[int] | None
    offline_replicas: list[int] | None
    prev_error_code: int | None
    prev_leader: int | None
    prev_leader_epoch: int | None
    prev_replicas: list[int] | None
    prev_isr: list[int] | None
    prev_offline_replicas: list[int] | None


class Coordinator(OfCluster, Began):
    """silver.coordinators."""

    log_partition: int
    leader: int | None
    leader_epoch: int | None
    prev_leader: int | None
    prev_leader_epoch: int | None
    is_move: bool
    followed_until: datetime
