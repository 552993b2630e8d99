"""Rows that rules hand on have the columns of their tables, with the types of these."""

from datetime import datetime
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from jobs.rules.gold import rows as of_gold
from jobs.rules.groups.cost_rows import Awaited, Cost
from jobs.rules.groups.lag_rows import GroupLag, HeldUpPartition, PartitionLag, RemovedCommit
from jobs.rules.groups.rebalance_rows import (
    EventRow,
    MemberRow,
    RebalanceBegin,
    RebalanceRow,
    TopicCount,
    TopicPartitions,
)
from jobs.rules.silver import rows as of_silver
from jobs.rules.transactions import rows as of_transactions
from schemas import consumption, gold, groups, silver, transactions
from schemas.table import Table
from tests.support.for_each import for_each

BY_WHO_WRITES = {"updated_at", "is_current", "part"}
"""Columns that rules do not give a row."""

OF_GROUP = {"cluster_id", "cluster", "group_id"}
ALSO_BY_WHO_WRITES = {
    Cost: OF_GROUP | {"is_live"},
    GroupLag: {"is_live"},
    of_transactions.TransactionRow: {"is_live"},
    RebalanceRow: OF_GROUP | {"id", "source", "is_live"},
    MemberRow: OF_GROUP | {"rebalance_id", "is_live"},
    EventRow: OF_GROUP | {"id", "source", "is_live"},
    RebalanceBegin: OF_GROUP | {"is_live"},
}

TYPES: dict[Any, str] = {
    str: "string",
    bool: "boolean",
    float: "double",
    datetime: "timestamp",
    list[str]: "array<string>",
    list[int]: "array<int>",
    Awaited: "struct<committed: int, at: timestamp, there_before: timestamp, set_to: int>",
    list[TopicCount]: "array<struct<topic: string, topic_id: string, partitions: int>>",
    list[TopicPartitions]: (
        "array<struct<topic: string, topic_id: string, partitions: array<int>>>"
    ),
    list[HeldUpPartition]: (
        "array<struct<topic: string, partition: int, last_stable: int, records: int>>"
    ),
    list[of_transactions.TopicPartitions]: "array<struct<topic: string, partitions: array<int>>>",
    list[PartitionLag]: (
        "array<struct<topic: string, partition: int, committed_offset: int, lag_min: int, "
        "lag_max: int, is_without_progress: boolean, burrow_status: string, "
        "committed_after: timestamp, committed_before: timestamp>>"
    ),
}

TABLES: dict[Any, Table] = {
    of_transactions.TransactionRow: transactions.TRANSACTIONS,
    of_transactions.TransactionCounts: transactions.TRANSACTION_COUNTS,
    of_gold.IsrChange: gold.ISR_CHANGES,
    of_gold.IsrEpisode: gold.ISR_EPISODES,
    of_gold.BrokerIncident: gold.BROKER_INCIDENTS,
    of_gold.LeaderChange: gold.LEADER_CHANGES,
    of_gold.LeaderBalance: gold.LEADER_BALANCE,
    Cost: consumption.REBALANCE_COST,
    GroupLag: consumption.GROUP_LAG,
    RebalanceRow: groups.REBALANCES,
    MemberRow: groups.REBALANCE_MEMBERS,
    EventRow: groups.GROUP_EVENTS,
    RebalanceBegin: groups.REBALANCE_BEGINS,
    RemovedCommit: consumption.REMOVED_COMMITS,
    of_gold.StaleBroker: gold.STALE_BROKERS,
    of_gold.AccessChange: gold.ACCESS_CHANGES,
    of_gold.VoterChange: gold.VOTER_CHANGES,
    of_gold.ControllerChange: gold.CONTROLLER_CHANGES,
    of_silver.PollGap: silver.POLL_GAPS,
    of_gold.PartitionState: silver.PARTITION_SNAPSHOTS,
    of_silver.PartitionSnapshot: silver.PARTITION_SNAPSHOTS,
    of_silver.ClusterSnapshot: silver.CLUSTER_SNAPSHOTS,
    of_silver.BrokerSnapshot: silver.BROKER_SNAPSHOTS,
    of_silver.TopicConfig: silver.TOPIC_CONFIGS,
    of_silver.Reassignment: silver.REASSIGNMENTS,
    of_silver.PartitionElr: silver.PARTITION_ELR,
    of_silver.Coordinator: silver.COORDINATORS,
}
WORKING = {of_gold.PartitionState: {"times", "evidence"}, RebalanceRow: {"member_rows"}}
"""Fields that are no columns."""


@for_each("row", TABLES)
def test_a_row_has_the_columns_of_its_table(row: Any) -> None:
    columns = {
        each.name: (each.type.replace("bigint", "int"), each.nullable)
        for each in TABLES[row].columns
        if each.name not in BY_WHO_WRITES | ALSO_BY_WHO_WRITES.get(row, set())
    }
    fields = {
        name: column_of(of)
        for name, of in get_type_hints(row).items()
        if name not in WORKING.get(row, ())
    }
    assert fields == columns


def column_of(of: Any) -> tuple[str, bool]:
    """The type of a column, and whether it may be null, by the type of a field."""
    told = [each for each in get_args(of) if each is not NoneType]
    is_nullable = get_origin(of) is not list and len(told) < len(get_args(of))
    kind = told[0] if is_nullable else of
    return "int" if kind is int else TYPES[kind], is_nullable
