"""Consumption: what rebalances cost, how far groups are behind, and commits that were removed."""

from schemas.gold import UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS, GROUP_ID
from schemas.table import PART, Column, Table, columns, part_column

REBALANCE_COST = Table(
    schema="gold",
    name="rebalance_cost",
    comment=(
        "The cost of each rebalance that the coordinators' log tells, by partition: for how long "
        "nobody committed, how far the group fell behind, how much may have been done twice. Share "
        "groups have none: they commit no offsets."
    ),
    columns=(
        Column("rebalance_id", "string", "The rebalance, gold.rebalances.id.", nullable=False),
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            topic string NOT NULL -- Topic whose offsets the group commits.
            partition int NOT NULL -- Partition of the topic.
            began_before timestamp NOT NULL -- As in gold.rebalances.
            ended_before timestamp NOT NULL -- As in gold.rebalances: the time of its last record.
            commit_gap_ms bigint -- The longest time, ms, between two successive commits of the
                partition that the rebalance lies in, or overlaps: from the last one before to the
                first one after, in the order of the log. While a group that had members has none,
                nobody but an administrator commits: such commits are left out. While is_live, the
                longest so far. Null where one of the two is not known.
            last_commit_at timestamp -- Where commit_gap_ms begins: the coordinator's clock.
            last_committed bigint -- The offset that was committed then.
            first_commit_at timestamp -- Where commit_gap_ms ends.
            first_committed bigint -- The offset that was committed then.
            cadence_ms bigint -- The usual time between commits: the longest between two of the
                partition in the ten minutes before the rebalance, other rebalances left out. If
                nobody committed since the rebalance before, that of the rebalance before. Null with
                fewer than two.
            pause_ms_min bigint -- Nobody consumed for at least this, ms: what two cadences leave of
                commit_gap_ms, from when on a record was known to be there. If nobody asked for the
                ends of logs, a later commit is taken to say that one was there. Null where
                pause_unknown says why.
            pause_ms_max bigint -- At most: commit_gap_ms. Null until the partition is committed
                again.
            pause_unknown string -- Why pause_ms_min is null: no_commit_before (in the ten minutes
                before) | no_commit_after (not yet, or not before the next rebalance) | removed |
                records_lost (as close_reason) | no_cadence | nothing_to_consume (the log had no
                record beyond last_committed) | no_progress (first_committed is no later offset than
                last_committed, or than the one that was set since, and nobody asked for the log's
                end). Else null.
            reprocessed_min bigint -- At least so many offsets were consumed again, or given back by
                who set them: by so much the committed offset fell. Offsets that were set while the
                group was empty count for the rebalance that ends that. Null without a commit
                before.
            reprocessed_max bigint -- At most, by who had the partition next, unless somebody set
                offsets back further: the end of the log, first asked for after the rebalance, less
                committed_before. Null where lag_before is, or the end was not asked for. If a
                member hung, it may do more that it had fetched when it awakes.
            lost_unread bigint -- Offsets that retention had deleted by then beyond the last commit;
                null as reprocessed_max.
            lag_before bigint -- The most that the group was behind when it was last asked for, in
                the ten minutes before; else null.
            lag_peak bigint -- The largest lag that was seen from the rebalance on until it was
                back.
            lag_peak_at timestamp -- When that was seen.
            lag_back_after timestamp -- The lag was above lag_before until after this; null where it
                was never seen to be.
            lag_back_before timestamp -- It was no more than lag_before by this; null while that is
                not seen.
            committed_before bigint -- The offset of the last commit before the rebalance was over,
                whoever made it.
            awaits_after struct<committed: bigint, at: timestamp, there_before: timestamp, set_to:
                bigint> -- The last commit of a member before the rebalance was over, until another
                one follows; by when a record was there that it did not have; and the offset that
                was set since, while the group was empty. Else null.
            close_reason string -- Why nothing more is said: recovered (the partition was committed
                again, and its lag is back where that is known) | next_rebalance | removed (the
                committed offset was: it expired, or it, the group or the topic was deleted) |
                records_lost (some of the log could not be read). Null while is_live.
        """),
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
        "close_known": (
            "close_reason IS NULL OR close_reason IN ('recovered', 'next_rebalance', 'removed', "
            "'records_lost')"
        ),
        "pause_in_order": (
            "pause_ms_min IS NULL OR (pause_ms_min >= 0 AND pause_ms_min <= pause_ms_max)"
        ),
        "reprocessed_in_order": (
            "reprocessed_max IS NULL OR (reprocessed_min >= 0 AND reprocessed_min <= "
            "reprocessed_max)"
        ),
        "lag_in_order": (
            "lag_back_after IS NULL OR lag_back_before IS NULL OR lag_back_after <= lag_back_before"
        ),
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

TABLES = (REBALANCE_COST,)

BURROW_OF_GROUP = ("OK", "WARNING", "ERROR")
"""Statuses by the rules of Burrow, from the best to the worst (jobs/rules/groups/burrow.py)."""

_LAG_OF_PARTITION = (
    "struct<topic: string, partition: int, committed_offset: bigint, lag_min: bigint, lag_max: "
    "bigint, is_without_progress: boolean, burrow_status: string, committed_after: timestamp, "
    "committed_before: timestamp>"
)

_HELD_UP = "struct<topic: string, partition: int, last_stable: bigint, records: bigint>"

GROUP_LAG = Table(
    schema="gold",
    name="group_lag",
    comment=(
        "How far each group was behind, as the enrichment `offsets` of polls told it: a row when "
        "that changed, at most one a minute. A group that could not be asked is as it was."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            first_poll string NOT NULL -- The poll with which the group was asked that the row
                shows.
            valid_from timestamp NOT NULL -- By then these commits had been read.
            valid_to timestamp -- By then others had been read, or the group was gone. Null: as far
                as polls know, it is so still.
            last_seen_at timestamp -- The last poll before valid_to that showed this state. Null
                while the row holds.
            end_reason string -- gone (the group is listed no more) | not_polled (groupsPattern no
                longer covers it); null if another row follows, and while the row holds.
            is_simple boolean -- The group only commits: no member ever joined it. Null if the lake
                cannot tell.
            partitions int NOT NULL -- Partitions that it has committed an offset of.
            committed_sum bigint -- All its committed offsets together: between two rows with the
                same partitions it rises by what the group was done with. Null without any.
            lag_min bigint -- Records that it was behind when the commits were read, all partitions
                together: at least. Those of the poll before that the commits do not cover. A
                partition whose lag is negative counts as 0. Null where no partition has an end of
                its log from before.
            lag_max bigint -- At most, until the ends were read. Null if the end of a partition's
                log is not known, or without commits.
            largest_lag_min bigint -- The largest lag of a partition: at least; null as lag_min.
                Negative if the commit of each is beyond the end of its log.
            largest_lag_max bigint -- The largest lag of a partition: at most; null as lag_max. As
                its least.
            partitions_behind int NOT NULL -- Partitions that may have had a lag: more than 0 at
                most.
            partitions_beyond int NOT NULL -- Partitions with a commit beyond the end of their log:
                a negative lag, as kafka-consumer-groups shows it. The log was cut off, the topic
                made again, or the offset set so.
            partitions_without_progress int NOT NULL -- Partitions that surely were behind since the
                poll before, and of which nothing was committed since.
            partitions_unknown int NOT NULL -- Partitions whose lag could not be told: no leader,
                the topic is gone, nobody answered.
            oldest_commit_after timestamp -- The oldest of its commits was made after this; null
                where it was there when polls first asked. Polls do not see a commit of the offset
                that is committed already.
            oldest_commit_before timestamp -- The oldest of its commits had been made by this.
            burrow_status string -- By the rules of Burrow, over the last ten polls that told of the
                group: OK | WARNING (a partition is) | ERROR (a partition is STOP, STALL or REWIND).
                Null while no partition has a status.
            prev_burrow_status string -- The last status before this row that was known; null if
                none was.
            prev_seen_at timestamp -- The last poll that showed it, or without one the row before;
                null in the group's first row.
            partitions_not_well int NOT NULL -- Partitions that are not OK by Burrow, or without
                progress, or whose lag is negative.
        """),
        Column(
            "not_well",
            f"array<{_LAG_OF_PARTITION}>",
            "These partitions, at most 100, those with the largest lag first. committed_after "
            "and committed_before: when the commit was made, as of the oldest one. lag_min and "
            "lag_max are negative where the commit is beyond the end of the log. "
            "burrow_status: OK | WARNING (it gets on, and falls behind) | STOP (no other "
            "offset was committed for longer than commits were seen before, and the log went "
            "on) | STALL (none in all ten polls) | REWIND (the committed offset fell, and did "
            "not come back to where it was); null with fewer than ten polls.",
            nullable=False,
        ),
        *columns("""
            not_consumed_max bigint -- Of lag_max, the records that a consumer with isolation.level
                read_committed could read: at most. Null as lag_max, and where the last stable
                offset of a partition that is behind is not known.
            held_up_min bigint -- Of the lag, the records that such a consumer cannot read yet: from
                the last stable offset of a partition (or the commit, if that is later) to the end
                of its log, all partitions together: at least. A transaction that is open holds them
                up. Inferred: brokers do not know a consumer's isolation.level, and with
                read_uncommitted nothing is held up. Null where no last stable offset is known.
            partitions_held_up int -- Partitions of which records are; null as held_up_min.
        """),
        Column(
            "held_up",
            f"array<{_HELD_UP}>",
            "These partitions, at most 100, those with most records first. gold.held_up has the "
            "transactions. Null as held_up_min.",
        ),
        UPDATED_AT,
        Column(
            "is_live",
            "boolean",
            "valid_to IS NULL.",
            nullable=False,
            generated_as="valid_to IS NULL",
        ),
        part_column(),
    ),
    key=("cluster_id", "cluster", "group_id", "first_poll"),
    constraints={
        "end_reason_known": "end_reason IS NULL OR end_reason IN ('gone', 'not_polled')",
        "lag_in_order": "lag_min IS NULL OR lag_max IS NULL OR lag_min <= lag_max",
        "largest_in_order": (
            "largest_lag_min IS NULL OR largest_lag_max IS NULL OR largest_lag_min <= "
            "largest_lag_max"
        ),
        "held_up_in_order": (
            "not_consumed_max IS NULL OR (not_consumed_max >= 0 AND held_up_min >= 0)"
        ),
        "burrow_known": f"burrow_status IS NULL OR burrow_status IN {BURROW_OF_GROUP}",
    },
    partition_by=("is_live", PART),
    live="is_live",
    log_hours=24,
    over=("valid_from", "valid_to"),
)

REMOVED_COMMITS = Table(
    schema="internal",
    name="removed_commits",
    was="gold.removed_commits_told",
    comment=(
        "Committed offsets that were removed, as polls tell it; gold.removed_commits has what the "
        "coordinators' log says, too."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            topic string NOT NULL -- Topic whose offset was committed.
            partition int NOT NULL -- Partition of the topic.
            committed_offset bigint -- The offset that was committed last, as far as polls saw.
            poll string NOT NULL -- The first poll with which the commit was not there any more.
            removed_after timestamp NOT NULL -- It was there still when a poll was answered then.
            removed_before timestamp NOT NULL -- It had been removed by this.
            is_group_gone boolean NOT NULL -- The group was listed no more, either.
        """),
    ),
    key=("cluster_id", "cluster", "group_id", "topic", "partition", "poll"),
    cluster_by=("removed_before",),
    over=("removed_before",),
)

LAG_TABLES = (GROUP_LAG, REMOVED_COMMITS)
