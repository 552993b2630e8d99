"""Rows of tables of lag, as `lag` makes them: without `updated_at`, and what Delta computes."""

from datetime import datetime
from typing import TypedDict

from jobs.rules.silver.rows import OfCluster


class PartitionLag(TypedDict):
    """A partition of gold.group_lag that is not well."""

    topic: str
    partition: int
    committed_offset: int | None
    lag_min: int | None
    lag_max: int | None
    is_without_progress: bool
    burrow_status: str | None
    committed_after: datetime | None
    committed_before: datetime | None


class HeldUpPartition(TypedDict):
    """A partition of gold.group_lag with records that are held up."""

    topic: str
    partition: int
    last_stable: int | None
    records: int | None


class HeldUpState(TypedDict):
    """The columns of gold.group_lag on what open transactions hold up."""

    not_consumed_max: int | None
    held_up_min: int | None
    partitions_held_up: int | None
    held_up: list[HeldUpPartition] | None


class LagState(HeldUpState):
    """The columns of gold.group_lag that make a state, but for `is_simple`."""

    partitions: int
    committed_sum: int | None
    lag_min: int | None
    lag_max: int | None
    largest_lag_min: int | None
    largest_lag_max: int | None
    partitions_behind: int
    partitions_beyond: int
    partitions_without_progress: int
    partitions_unknown: int
    oldest_commit_after: datetime | None
    oldest_commit_before: datetime | None
    burrow_status: str | None
    partitions_not_well: int
    not_well: list[PartitionLag]


class GroupLag(OfCluster, LagState):
    """gold.group_lag."""

    group_id: str
    first_poll: str
    valid_from: datetime
    valid_to: datetime | None
    last_seen_at: datetime | None
    end_reason: str | None
    is_simple: bool | None
    prev_burrow_status: str | None
    prev_seen_at: datetime | None


class RemovedCommit(OfCluster):
    """internal.removed_commits."""

    group_id: str
    topic: str
    partition: int
    committed_offset: int | None
    poll: str
    removed_after: datetime
    removed_before: datetime
    is_group_gone: bool
