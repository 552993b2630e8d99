"""Groups: what the coordinators' log and polls tell of them.

A source's rows do not change when another source has rows later. Views (schemas/views/) join them,
and who coordinated a group, names of topic ids, partitions that nobody has. So what these views
alone read lies in schema `internal`.
"""

from schemas.gold import ID, UPDATED_AT
from schemas.silver import CLUSTER_COLUMNS, GROUP_ID
from schemas.table import PART, Column, Table, columns, part_column

GROUP_TYPES = ("classic", "consumer", "share", "streams")
REASONS = (
    "member_joined",
    "member_left",
    "static_member_left",
    "subscription_changed",
    "partitions_changed",
    "metadata_changed",
    "assignor_changed",
    "group_emptied",
    "converted",
    "same_members",
)
"""Why a group rebalanced, inferred from what changed; in the order in which they are told."""

_LOG_PARTITION = Column(
    "log_partition",
    "int",
    "Partition of __consumer_offsets that the group is kept in; null where it is not known.",
)
_GROUP_TYPE = Column(
    "group_type", "string", "classic | consumer | share | streams.", nullable=False
)
_SOURCE = Column(
    "source",
    "string",
    "log (what the coordinator wrote: exact) | polls (what changed between two descriptions: "
    "bounded, and several in a row are one).",
    nullable=False,
)

_IS_LIVE = Column(
    "is_live",
    "boolean",
    "A later round may still change the row: it still lasts, or the log was read no further.",
    nullable=False,
)

REBALANCES = Table(
    schema="internal",
    name="rebalances",
    was="gold.rebalances_told",
    comment=(
        "Rebalances of groups as their source tells them; gold.rebalances has what other sources "
        "say of them, too."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        _GROUP_TYPE,
        *columns("""
            prev_group_type string -- Type before, where this is the rebalance of a conversion; else
                null.
            protocol_type string -- Of classic groups: consumer, connect, ...; null of the others.
        """),
        _SOURCE,
        *columns("""
            generation int -- Generation, or group epoch, that it led to; null for classic groups of
                polls.
            prev_generation int -- The one before it; null where nothing is known from before.
            skipped_generations int -- Generations or epochs between the two that never completed
                (of polls: that no poll showed completed); null where that is not known.
        """),
        _LOG_PARTITION,
        *columns("""
            first_offset bigint -- Its first record in that partition; null of polls.
            last_offset bigint -- Its last record so far; null of polls.
            poll string -- Of polls: the first accepted poll that showed it; else null.
            began_after timestamp -- It began after this; null where nothing bounds it. Equal to
                began_before: exact.
            began_before timestamp NOT NULL -- It had begun by this.
            ended_after timestamp -- It ended after this; null while it lasts, or where nothing
                bounds it.
            ended_before timestamp -- It had ended by this; null while it lasts. Equal to
                ended_after: exact.
            ended_leader_epoch int -- Leader epoch of log_partition that wrote the record with which
                it ended; null while it lasts, where no one record says that it ended, and of polls.
            duration_ms_min bigint -- It took at least this, ms; null while it lasts.
            duration_ms_max bigint -- At most, ms; null while it lasts, or where its begin has no
                bound.
            end_reason string -- completed | emptied | deleted | converted (before it completed) |
                unknown (records were lost meanwhile); null while it lasts. A classic group's
                generation is completed once its record is written: if a member joined before that
                was acknowledged, nobody got the assignment, which records do not tell.
            assignor string -- Assignor that the group agreed on, or the server's; null where no
                source names one.
            mode string -- eager | cooperative; null where it is not known (other protocol types,
                share groups).
            phases int -- 2: members gave partitions up in one generation and joined again for the
                next (more where members gave up some in that one, too). Else 1; null of polls.
            group_leader string -- Member that led a classic group, and assigned; null of the
                others.
            members int NOT NULL -- Members after it.
            prev_members int -- Members before it; null where nothing is known from before.
            members_joined int -- Members that are new; null where nothing is known from before.
            members_left int -- Members that are gone; null where nothing is known from before.
            members_restarted int -- Static members that came back under another member id; null as
                members_joined.
            partitions_kept int -- Partitions (streams: active tasks) that stayed with their member.
            partitions_moved int -- Partitions that another member has than before.
            partitions_added int -- Partitions that a member has and none had before.
            partitions_lost int -- Partitions that a member had and none has now: unsubscribed, the
                topic is gone, or nobody is left.
            subscribed array<string> -- Topics that its members subscribe to, sorted; null where
                that is not known.
            assigned array<struct<topic: string, topic_id: string, partitions: int>> -- How many
                partitions of each topic have a member; while the rebalance lasts, by the target
                assignment. Null if that is not known.
            stickiness double -- partitions_kept / (partitions_kept + partitions_moved +
                partitions_lost); null where nothing was assigned before.
        """),
        Column(
            "reasons",
            "array<string>",
            f"Inferred, of: {', '.join(REASONS)}. Null where nothing is known from before. "
            "static_member_left: it left or timed out, which look the same. partitions_changed: "
            "some were added or lost. metadata_changed: the coordinator of a group with epochs "
            "knew other metadata of its topics, such as racks of replicas, and no partition was "
            "added or lost. same_members: nothing shows why.",
        ),
        *columns("""
            removed_by array<string> -- Time-outs that removed members, sorted, inferred: rebalance
                (it did not give up in time what it was asked for) | session (a static member was
                away for too long). Null if no member was, and where records do not tell: of classic
                groups, of members that left by themselves or died, which look the same, and of
                polls.
            assignment_skew int -- The partitions of the member that has the most, less those of the
                one that has the least; while the rebalance lasts, by the target assignment. Null
                without members, and where that is not known.
            silent_ms_max bigint -- If a member that left had died, it had been silent for at most
                this when the rebalance began, ms: the longest session time-out of those that left.
                Inferred; null if nobody left, and where records name no time-out (other types than
                classic).
            since_previous_ms bigint -- From the end of the group's rebalance before to this one's
                began_before, ms.
        """),
        UPDATED_AT,
        _IS_LIVE,
        part_column(),
    ),
    key=("id",),
    constraints={
        "type_known": f"group_type IN ({', '.join(map(repr, GROUP_TYPES))})",
        "source_known": "source IN ('log', 'polls')",
        "began_in_order": "began_after IS NULL OR began_after <= began_before",
        "end_is_whole": "(ended_before IS NULL) = (end_reason IS NULL)",
        "end_known": (
            "end_reason IS NULL OR end_reason IN ('completed', 'emptied', 'deleted', 'converted', "
            "'unknown')"
        ),
        "mode_known": "mode IS NULL OR mode IN ('eager', 'cooperative')",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

_PARTITIONS_OF_MEMBER = "array<struct<topic: string, topic_id: string, partitions: array<int>>>"

REBALANCE_MEMBERS = Table(
    schema="internal",
    name="rebalance_members",
    was="gold.rebalance_members_told",
    comment=(
        "Who had what before and after each rebalance, as its source tells it; "
        "gold.rebalance_members has names of topic ids, too."
    ),
    columns=(
        Column("rebalance_id", "string", "The rebalance, gold.rebalances.id.", nullable=False),
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            member_id string NOT NULL -- Member, under the id that it has afterwards, or had if it
                left.
            prev_member_id string -- Its id before, where a static member came back under another;
                else null.
            instance_id string -- group.instance.id of a static member; null of a dynamic one.
            client_id string -- client.id.
            client_host string -- Address that it came from.
            rack string -- Its rack, client.rack; null where it tells none.
            change string NOT NULL -- stayed | joined | left (before is empty if it also came
                meanwhile) | restarted | unknown (nothing is known from before).
        """),
        Column(
            "before",
            _PARTITIONS_OF_MEMBER,
            "Partitions that it had; null where nothing is known from before. Of streams "
            "groups: active tasks, the topic is the subtopology.",
        ),
        Column(
            "after",
            _PARTITIONS_OF_MEMBER,
            "Its partitions; while the rebalance lasts, those of its target assignment. Empty "
            "if it left.",
        ),
        Column("began_before", "timestamp", "As in gold.rebalances.", nullable=False),
        UPDATED_AT,
        _IS_LIVE,
        part_column(),
    ),
    key=("rebalance_id", "member_id"),
    constraints={"change_known": "change IN ('stayed', 'joined', 'left', 'restarted', 'unknown')"},
    partition_by=("is_live", PART),
    live="is_live",
    replaced_by=("rebalance_id",),
    none_without="change",
    # Over, as it was, with its rebalance.
    over=("began_before",),
)

GROUP_EVENTS = Table(
    schema="internal",
    name="group_events",
    was="gold.group_events_told",
    comment=(
        "Events of groups other than rebalances, as their source tells them; gold.group_events has "
        "moves of coordinators, too."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            event string NOT NULL -- created | deleted (an empty group that another protocol takes
                over is deleted and created: its committed offsets stay) | converted |
                static_restart | records_lost (some records of the group's partition were gone
                before they could be read, or cannot be read) | undecoded (a record of it could not
                be decoded).
            group_type string -- Type afterwards: classic | consumer | share | streams; null where
                it is not known.
            prev_group_type string -- Type before a conversion; else null.
        """),
        _SOURCE,
        *columns("""
            began_after timestamp -- It happened after this; null where nothing bounds it.
            began_before timestamp NOT NULL -- It had happened by this. Equal to began_after: exact.
        """),
        _LOG_PARTITION,
        *columns("""
            offset bigint -- The record, or where the gap begins; null of polls.
            poll string -- Of polls: the first accepted poll that showed it; else null.
            generation int -- Generation or epoch of the group then; null where it is not known.
            member_id string -- Of a static restart: the id afterwards.
            prev_member_id string -- Of a static restart: the id before.
            instance_id string -- Of a static restart: its group.instance.id.
            client_id string -- Of a static restart: its client.id.
            client_host string -- Of a static restart: the address that it came from.
            detail string -- One line: how many offsets were lost, why a record was not decoded;
                else null.
        """),
        UPDATED_AT,
        _IS_LIVE,
        part_column(),
    ),
    key=("id",),
    constraints={
        "event_known": (
            "event IN ('created', 'deleted', 'converted', 'static_restart', 'records_lost', "
            "'undecoded')"
        ),
        "source_known": "source IN ('log', 'polls')",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_before",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before",),
)

REBALANCE_STORMS = Table(
    schema="internal",
    name="rebalance_storms",
    was="gold.rebalance_storms_told",
    comment=(
        "Stretches in which a group rebalanced again and again, and members that joined again and "
        "again (crash loops), by source."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            kind string NOT NULL -- storm (thresholds.storm rebalances or more within
                thresholds.stormWindow) | crash_loop (the same client id and host joined
                thresholds.crashLoop times or more within thresholds.crashLoopWindow: made again, or
                fenced and back).
        """),
        _SOURCE,
        *columns("""
            client_id string -- Of a crash loop: its client.id; null of a storm.
            client_host string -- Of a crash loop: the address that it came from; null of a storm.
            began_before timestamp NOT NULL -- When the first of them had begun.
            last_before timestamp NOT NULL -- When the last of them had begun.
            rebalances int NOT NULL -- Rebalances in it; of a crash loop, those with such a join.
            per_hour double -- rebalances / (last_before - began_before), an hour; null where both
                are the same.
        """),
        UPDATED_AT,
        _IS_LIVE,
        part_column(),
    ),
    key=("id",),
    constraints={"kind_known": "kind IN ('storm', 'crash_loop')"},
    partition_by=("is_live", PART),
    live="is_live",
    replaced_by=("cluster_id", "group_id", "source"),
    none_without="kind",
    over=("began_before", "last_before"),
)

GROUP_LIVES = Table(
    schema="gold",
    name="group_lives",
    comment=(
        "When each group was there, by source: from its creation, or the first that is known of "
        "it, until it was deleted."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        _SOURCE,
        *columns("""
            valid_from timestamp NOT NULL -- From then on it is known to be there.
            valid_to timestamp -- When it was deleted, or polls gave way to the log; null while it
                is there.
        """),
        _LOG_PARTITION,
        *columns("""
            group_type string -- Its type, the last one: classic | consumer | share | streams; null
                where it is not known.
            known_since timestamp -- From then on none of its records was missed; null where the
                last ones were.
        """),
        UPDATED_AT,
        _IS_LIVE,
        part_column(),
    ),
    key=("cluster_id", "group_id", "source", "valid_from"),
    constraints={"source_known": "source IN ('log', 'polls')"},
    partition_by=("is_live", PART),
    live="is_live",
    over=("valid_from", "valid_to"),
)

REBALANCE_BEGINS = Table(
    schema="internal",
    name="rebalance_begins",
    was="gold.rebalance_begins",
    comment=(
        "When polls saw rebalances of classic groups begin: the log tells them only once they are "
        "over."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        *columns("""
            began_after timestamp -- It began after this; null where nothing bounds it.
            began_before timestamp NOT NULL -- It had begun by this.
            ended_before timestamp -- It had ended by this; null while it lasts.
        """),
        Column(
            "is_live",
            "boolean",
            "ended_before IS NULL.",
            nullable=False,
            generated_as="ended_before IS NULL",
        ),
        part_column(),
    ),
    key=("cluster_id", "group_id", "began_before"),
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

TABLES = (
    REBALANCES,
    REBALANCE_MEMBERS,
    GROUP_EVENTS,
    REBALANCE_STORMS,
    REBALANCE_BEGINS,
    # The last to lose rows: from when on the log has a group, and what polls told is hidden, its
    # lives say.
    GROUP_LIVES,
)
