"""Rows of tables of gold, as rules make them: without `updated_at`, and what Delta computes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NotRequired, TypedDict

from jobs.rules.silver.rows import Began, OfCluster, PartitionSnapshot


@dataclass(frozen=True, slots=True)
class Evidence:
    """Facts of the controllers' log about one record.

    `lost_leader`: the leader before could not lead any more. Its broker was fenced, not registered
    or in controlled shutdown, or the replica's log directory was offline. `completes_reassignment`:
    it completed one. `elr`: eligible and last known leaders of the state before, by column of
    silver.partition_elr. `began_recovery`: it set the leader recovery state, as an unclean election
    does from 3.2-IV0 on where it was not set (``PartitionChangeBuilder``).
    """

    lost_leader: bool
    completes_reassignment: bool
    elr: Mapping[str, Sequence[int]]
    began_recovery: bool


class PartitionState(PartitionSnapshot):
    """silver.partition_snapshots, and what gold has to know beside.

    `times`: for how many partitions the row stands, without 1. They were first seen by the same
    poll, with all replicas in sync, and have the same leader and preferred leader; nothing else of
    them matters to gold. `evidence`: of a state that began with one record of the controllers' log.
    """

    times: NotRequired[int]
    evidence: NotRequired[Evidence]


class Ended(TypedDict):
    """When something ended, and how long it lasted; None while it lasts."""

    ended_poll: str | None
    ended_after: datetime | None
    ended_before: datetime | None
    duration_ms_min: int | None
    duration_ms_max: int | None


class PartitionEvent(OfCluster, Began):
    """A beginning of something of a partition."""

    id: str
    topic: str
    topic_id: str | None
    partition: int


class Lasting(Began, Ended):
    """Something that began, and may have ended."""


class IsrChange(PartitionEvent, Ended):
    """gold.isr_changes. One that left, or was out initially, is an absence from the ISR."""

    broker_id: int
    rack: str | None
    change: str
    leader: int | None
    prev_leader: int | None
    isr: list[int] | None
    prev_isr: list[int] | None
    replicas: list[int] | None
    cause: str | None
    signs: list[str] | None
    cause_due_at: datetime | None
    is_flapping: bool | None
    end_reason: str | None
    is_live: bool


class IsrEpisode(PartitionEvent, Ended):
    """gold.isr_episodes."""

    level: str
    end_reason: str | None
    brokers_out: list[int]
    smallest_isr: int | None
    min_isr: int | None
    is_live: bool


class BrokerIncident(OfCluster, Began, Ended):
    """gold.broker_incidents."""

    id: str
    broker_id: int
    rack: str | None
    partitions: int
    partitions_out: int
    first_out_before: datetime
    last_out_before: datetime
    causes: list[str]
    worst_level: str
    is_live: bool


class Counts(TypedDict):
    """How often a leader changed between two observations."""

    changes_min: int
    changes_max: int | None
    changes_hidden: int | None


class Leaderless(TypedDict):
    """How long a partition was without a leader, at least and at most."""

    leaderless_ms_min: int | None
    leaderless_ms_max: int | None


class Why(TypedDict):
    """Why a leader changed, and whether the election was clean."""

    reason: str
    unclean: str | None
    is_last_known_leader: bool | None


class LeaderChange(PartitionEvent, Counts, Why, Leaderless):
    """gold.leader_changes."""

    prev_leader: int
    leader: int
    prev_leader_epoch: int | None
    leader_epoch: int | None
    replicas: list[int] | None
    prev_isr: list[int] | None
    isr: list[int] | None
    epoch_semantics: str


class Leads(TypedDict):
    """How many partitions a broker leads, is preferred for, and is preferred for and does not lead;
    and the share of the last.
    """

    leads: int
    preferred_for: int
    led_elsewhere: int
    imbalance: float | None


class LeaderBalance(OfCluster, Leads):
    """gold.leader_balance."""

    broker_id: int
    poll: str
    source: str
    valid_from: datetime
    superseded_poll: str | None
    valid_to: datetime | None


class StaleBroker(OfCluster, Ended):
    """gold.stale_brokers."""

    id: str
    broker_id: int
    broker: str | None
    poll: str
    began_after: datetime | None
    began_before: datetime
    end_reason: str | None
    partitions_behind: int
    epochs_behind: int
    is_live: bool


class AccessChange(OfCluster, Began):
    """gold.access_changes."""

    id: str
    change: str


class VoterChange(OfCluster, Began):
    """internal.voter_changes."""

    id: str
    voters: list[int]
    prev_voters: list[int]


class ControllerChange(OfCluster, Began):
    """gold.controller_changes."""

    id: str
    controller_id: int
    controller_epoch: int
    prev_controller_id: int | None
    prev_controller_epoch: int | None
