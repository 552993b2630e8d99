"""Gold of consumption: what rebalances cost."""

from schemas.gold import UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS, GROUP_ID
from schemas.table import PART, Column, Table, part_column

REBALANCE_COST = Table(
    schema="gold",
    name="rebalance_cost",
    comment=(
        "The cost of each rebalance that the coordinators' log tells, by partition: for how long nobody committed, how "
        "far the group fell behind, how much may have been done twice. Share groups have none: they commit no offsets."
    ),
    columns=(
        Column("rebalance_id", "string", "The rebalance, gold.rebalances.id.", nullable=False),
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column("topic", "string", "Topic whose offsets the group commits.", nullable=False),
        Column("partition", "int", "Partition of the topic.", nullable=False),
        Column("began_before", "timestamp", "As in gold.rebalances.", nullable=False),
        Column("ended_before", "timestamp", "As in gold.rebalances: the time of its last record.", nullable=False),
        Column(
            "commit_gap_ms",
            "bigint",
            "The longest time, ms, between two successive commits of the partition that the rebalance lies in, or "
            "overlaps: from the last one before to the first one after, in the order of the log. While is_live, the "
            "longest so far. Null where one of the two is not known.",
        ),
        Column("last_commit_at", "timestamp", "Where commit_gap_ms begins: the coordinator's clock."),
        Column("last_committed", "bigint", "The offset that was committed then."),
        Column("first_commit_at", "timestamp", "Where commit_gap_ms ends."),
        Column("first_committed", "bigint", "The offset that was committed then."),
        Column(
            "cadence_ms",
            "bigint",
            "The usual time between commits: the longest between two of the partition in the ten minutes before the "
            "rebalance, other rebalances left out. Null with fewer than two.",
        ),
        Column(
            "pause_ms_min",
            "bigint",
            "Nobody consumed for at least this, ms: what two cadences leave of commit_gap_ms, from when on a record "
            "was known to be there. If nobody asked for the ends of logs, a later commit is taken to say that one was "
            "there. Null where pause_unknown says why.",
        ),
        Column("pause_ms_max", "bigint", "At most: commit_gap_ms. Null until the partition is committed again."),
        Column(
            "pause_unknown",
            "string",
            "Why pause_ms_min is null: no_commit_before (in the ten minutes before) | no_commit_after (not yet, or not "
            "before the next rebalance) | removed | records_lost (as close_reason) | no_cadence | nothing_to_consume "
            "(the log had no record beyond last_committed) | no_progress (first_committed is no later offset, and "
            "nobody asked for the log's end). Else null.",
        ),
        Column(
            "reprocessed_min",
            "bigint",
            "At least so many offsets were consumed again, or given back by who set them: by so much the committed "
            "offset fell. Null without a commit before.",
        ),
        Column(
            "reprocessed_max",
            "bigint",
            "At most, by who had the partition next, unless somebody set offsets back further: the end of the log, "
            "first asked for after the rebalance, less the last commit before. Null where the end was not asked for. "
            "If a member hung, it may do more that it had fetched when it awakes.",
        ),
        Column(
            "lost_unread",
            "bigint",
            "Offsets that retention had deleted by then beyond the last commit; null as reprocessed_max.",
        ),
        Column(
            "lag_before",
            "bigint",
            "The most that the group was behind when it was last asked for, in the ten minutes before; else null.",
        ),
        Column("lag_peak", "bigint", "The largest lag that was seen from the rebalance on until it was back."),
        Column("lag_peak_at", "timestamp", "When that was seen."),
        Column(
            "lag_back_after",
            "timestamp",
            "The lag was above lag_before until after this; null where it was never seen to be.",
        ),
        Column("lag_back_before", "timestamp", "It was no more than lag_before by this; null while that is not seen."),
        Column(
            "awaits_after",
            "struct<committed: bigint, at: timestamp>",
            "The last commit before the rebalance was over, until another one follows; else null.",
        ),
        Column(
            "close_reason",
            "string",
            "Why nothing more is said: recovered (the partition was committed again, and its lag is back where that is "
            "known) | next_rebalance | removed (the committed offset was: it expired, or it, the group or the topic "
            "was deleted) | records_lost (some of the log could not be read). Null while is_live.",
        ),
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "close_reason IS NULL: a later round may still change the row.",
            nullable=False,
            generated_as="close_reason IS NULL",
        ),
        part_column(),
    ),
    key=("rebalance_id", "topic", "partition"),
    constraints={
        "close_known": "close_reason IS NULL OR close_reason IN ('recovered', 'next_rebalance', 'removed', "
        "'records_lost')",
        "pause_in_order": "pause_ms_min IS NULL OR (pause_ms_min >= 0 AND pause_ms_min <= pause_ms_max)",
        "reprocessed_in_order": "reprocessed_max IS NULL OR (reprocessed_min >= 0 AND reprocessed_min <= "
        "reprocessed_max)",
        "lag_in_order": "lag_back_after IS NULL OR lag_back_before IS NULL OR lag_back_after <= lag_back_before",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

TABLES = (REBALANCE_COST,)
