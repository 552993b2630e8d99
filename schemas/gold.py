"""Gold: what happened. Events and episodes, by the rules of jobs/rules/; what is inferred is called
so.

Times are bounds: `*_after` is when the last poll without it was sent, `*_before` when the first
poll with it was answered. Of what the controllers' log tells both are the time of the record.
"""

from schemas.silver import CLUSTER_COLUMNS, PARTITION, TOPIC, TOPIC_ID
from schemas.table import PART, Column, Table, columns, part_column

ID = Column("id", "string", "Hash of the row's key and its opening poll.", nullable=False)
POLL = columns("""
    poll string NOT NULL -- First accepted poll, or record of the controllers' log, that showed it.
    source string NOT NULL -- Source that showed it: polls | log (the controllers' log).
""")
BEGAN = columns("""
    began_after timestamp -- It began after this; null where no poll came before the first that
        showed it.
    began_before timestamp NOT NULL -- It had begun by this.
""")
UPDATED_AT = Column("updated_at", "timestamp", "When the row was last written.", nullable=False)
RACK = Column(
    "rack",
    "string",
    "Its rack, as listed by that poll or the one before; null when it has none or was not listed.",
)

LEVELS = ("under_replicated", "at_min_isr", "under_min_isr", "offline")
"""From the mildest to the worst."""


def _ends(what: str) -> tuple[Column, ...]:
    return columns(f"""
        ended_poll string -- First accepted poll in which {what}; null while it lasts.
        ended_after timestamp -- It ended after this; null while it lasts.
        ended_before timestamp -- It had ended by this; null while it lasts.
        duration_ms_min bigint -- It lasted at least this, ms; null while it lasts.
        duration_ms_max bigint -- It lasted at most this, ms; null while it lasts, or where its
            begin has no bound.
    """)


def _is_live(until: str) -> Column:
    return Column(
        "is_live",
        "boolean",
        f"A later round may still change the row, or need it: {until}.",
        nullable=False,
    )


ISR_CHANGES = Table(
    schema="gold",
    name="isr_changes",
    comment="One row for each broker that left, rejoined or joined the ISR of a partition.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column("broker_id", "int", "Broker that the row is about.", nullable=False),
        RACK,
        *columns("""
            change string NOT NULL -- left | initially_out (a replica that was out of the ISR when
                the partition was first seen) | rejoined | joined (a replica that a reassignment had
                added).
            leader int -- Leader afterwards; -1 none.
            prev_leader int -- Leader before; null when the partition was not seen before.
            isr array<int> -- ISR afterwards, a sorted set.
            prev_isr array<int> -- ISR before, a sorted set.
            replicas array<int> -- Assigned brokers afterwards, in order.
        """),
        *POLL,
        *BEGAN,
        *columns("""
            cause string -- Inferred, of brokers that left: broker_down | log_dir_failed (a log
                directory: the broker stayed listed while its replica was offline) | reassignment |
                leader_stalled | lagging. Null until cause_due_at.
            signs array<string> -- State of the broker in the polls until cause_due_at, from which
                the cause follows: gone (not listed) | offline | failed (it lost a leadership as
                only a failed broker does) | back (in the ISR) | together (others left ISRs of the
                same leader at the same moment). Null of those that came.
            cause_due_at timestamp -- End of the look-ahead after which the cause is decided.
            is_flapping boolean -- Of those that left: it left this ISR thresholds.flaps times or
                more within thresholds.flapWindow, this time included.
        """),
        *_ends("it was back, was no replica any more, or the partition was gone"),
        *columns("""
            end_reason string -- rejoined | removed (no replica any more) | unknown (its ISR means
                nothing any more) | or as the partition ended; null while it is out.
        """),
        UPDATED_AT,
        _is_live(
            "while the broker is out, its cause is not decided, or it counts for flapping or "
            "an incident"
        ),
        part_column(),
    ),
    key=("id",),
    constraints={
        "change_known": "change IN ('left', 'initially_out', 'rejoined', 'joined')",
        "cause_known": (
            "cause IS NULL OR (change IN ('left', 'initially_out') AND cause IN ('broker_down', "
            "'log_dir_failed', 'reassignment', 'leader_stalled', 'lagging'))"
        ),
        "bounds_in_order": "began_after IS NULL OR began_after <= began_before",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

ISR_EPISODES = Table(
    schema="gold",
    name="isr_episodes",
    comment=(
        "One row for each stretch of a partition at a level. Levels do not exclude each other: "
        "what is under min ISR is under-replicated too."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        *columns("""
            level string NOT NULL -- under_replicated | at_min_isr (size of the ISR = effective min
                ISR, as always if there are no more replicas) | under_min_isr (has a leader) |
                offline (no leader).
        """),
        *POLL,
        *BEGAN,
        *_ends("it was not at this level any more"),
        *columns("""
            end_reason string -- Null: it recovered. unknown: its min ISR is not known, or its ISR
                means nothing, any more. Else as the partition ended: recreated | unauthorized |
                gone | not_polled.
            brokers_out array<int> NOT NULL -- Replicas that were out of the ISR at any time of it,
                sorted.
            smallest_isr int -- Smallest size of the ISR in it; null where the ISR means nothing.
            min_isr int -- Effective min ISR, the largest in it; null where it is not known (no
                enrichment).
        """),
        UPDATED_AT,
        _is_live("while it lasts"),
        part_column(),
    ),
    key=("id",),
    constraints={
        "level_known": f"level IN {LEVELS}",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_before",
        "end_is_whole": "(ended_poll IS NULL) = (ended_before IS NULL)",
    },
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

BROKER_INCIDENTS = Table(
    schema="gold",
    name="broker_incidents",
    comment=(
        "One row for each stretch in which some ISR lacked a broker (reassignments left out); gaps "
        "under 60 s are part of it."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        Column("broker_id", "int", "The broker.", nullable=False),
        RACK,
        *POLL,
        *BEGAN,
        *_ends("no ISR lacked it any more"),
        *columns("""
            partitions bigint NOT NULL -- Partitions whose ISR lacked it.
            partitions_out bigint NOT NULL -- Partitions whose ISR lacks it now; 0 once it ended.
            first_out_before timestamp NOT NULL -- The first of them had lost it by this.
            last_out_before timestamp NOT NULL -- The last of them had lost it by this.
            causes array<string> NOT NULL -- Causes of its departures, sorted; empty until the first
                is decided.
            worst_level string NOT NULL -- The worst level that a partition reached while it lacked
                the broker: under_replicated | at_min_isr | under_min_isr | offline.
        """),
        UPDATED_AT,
        _is_live(
            "while it lasts, may still be joined by a departure, or a cause in it is not decided"
        ),
        part_column(),
    ),
    key=("id",),
    constraints={"level_known": f"worst_level IN {LEVELS}"},
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

STALE_BROKERS = Table(
    schema="gold",
    name="stale_brokers",
    comment=(
        "One row for each stretch in which a broker answered clients from an old image of the "
        "cluster, as one does that is cut off from the controllers. Found when polls ask it; a "
        "broker that nobody asked may be stale unseen."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns("""
            broker_id int NOT NULL -- The broker.
            broker string -- host:port at which it answered.
            poll string NOT NULL -- First accepted poll in which it was found to be behind.
            began_after timestamp -- Its last answer that was not behind was asked for then; null:
                none was.
            began_before timestamp NOT NULL -- Its first answer that was behind came then.
        """),
        *_ends("it was not behind, or could not be reached"),
        *columns("""
            end_reason string -- caught_up | unreachable (it may be stale still); null while it
                lasts.
            partitions_behind int NOT NULL -- Partitions that it showed in an earlier state, at
                most.
            epochs_behind bigint NOT NULL -- Leader epochs that it was behind, of all partitions
                together, at most. 0 where ISRs alone differed.
        """),
        _is_live("while it lasts"),
        part_column(),
    ),
    key=("id",),
    constraints={"end_known": "end_reason IS NULL OR end_reason IN ('caught_up', 'unreachable')"},
    partition_by=("is_live", PART),
    live="is_live",
    over=("began_before", "ended_before"),
)

LEADER_CHANGES = Table(
    schema="gold",
    name="leader_changes",
    comment="One row for each observed change of a partition's leader or leader epoch.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        *columns("""
            prev_leader int NOT NULL -- Leader before; -1 none.
            leader int NOT NULL -- Leader afterwards; -1 none.
            prev_leader_epoch int -- Leader epoch before; null before Metadata v9.
            leader_epoch int -- Leader epoch afterwards; null before Metadata v9.
            replicas array<int> -- Assigned brokers afterwards, in order: the first is the preferred
                leader.
            prev_isr array<int> -- ISR before, a sorted set.
            isr array<int> -- ISR afterwards, a sorted set.
        """),
        *POLL,
        *BEGAN,
        *columns("""
            changes_min int NOT NULL -- Changes of the leader between the two polls, to and from
                none included: at least.
            changes_max int -- At most; null where epochs cannot be trusted.
            changes_hidden int -- Of them not seen by any poll; null where that is not known
                exactly.
            epoch_semantics string NOT NULL -- How sure the counts of changes are: exact (but for a
                reassignment that began and ended, or was cancelled, between the two polls: that
                adds one) | upper_bound | unreliable.
            reason string NOT NULL -- Inferred, but where the controllers' log tells, which says so:
                preferred | failover | reassignment | recovery (from none) | offline (to none) |
                isr_shrink (the same leader, but brokers left the ISR: that raises epochs while
                metadata.version is below 3.6-IV0 or not known, and in a migration from ZooKeeper) |
                unknown. offline, recovery or unknown alone where the ISR means nothing.
            unclean string -- no | suspected | proven; null where it cannot be told: where the ISR
                means nothing, and with ELR where the enrichment elr did not tell the eligible
                leaders of the state before, or told one that was down: if it was killed, it is
                eligible no more.
            is_last_known_leader boolean -- The new leader is the last one that was known, kept with
                the ELR, elected unclean whatever the configuration says (inferred); null where the
                enrichment elr did not tell it of the state before, and where an eligible leader
                that was down is back.
            leaderless_ms_min bigint -- Without a leader before this change: at least, ms.
            leaderless_ms_max bigint -- At most, ms; null where it is not known.
        """),
        UPDATED_AT,
    ),
    key=("id",),
    constraints={
        "semantics_known": "epoch_semantics IN ('exact', 'upper_bound', 'unreliable')",
        "reason_known": (
            "reason IN ('preferred', 'failover', 'reassignment', 'recovery', 'offline', "
            "'isr_shrink', 'unknown')"
        ),
        "unclean_known": "unclean IS NULL OR unclean IN ('no', 'suspected', 'proven')",
        "bounds_in_order": "changes_max IS NULL OR changes_min <= changes_max",
    },
    cluster_by=("cluster_id", "began_before"),
    over=("began_before",),
)

LEADER_BALANCE = Table(
    schema="gold",
    name="leader_balance",
    comment=(
        "Partitions that each broker leads, over time: a row only when it changes. Topics that the "
        "filter leaves out are not counted."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        Column("broker_id", "int", "The broker.", nullable=False),
        *POLL,
        *columns("""
            valid_from timestamp NOT NULL -- When that poll was answered: it is so from then on.
            leads bigint NOT NULL -- Partitions that it leads.
            preferred_for bigint NOT NULL -- Partitions whose preferred leader it is.
            led_elsewhere bigint NOT NULL -- Of these, partitions that another broker leads, or
                none.
            imbalance double -- led_elsewhere / preferred_for; null where it is preferred nowhere.
            superseded_poll string -- First accepted poll with other numbers; null while current.
            valid_to timestamp -- When that poll was answered; null while current.
        """),
        Column(
            "is_current",
            "boolean",
            "valid_to IS NULL.",
            nullable=False,
            generated_as="valid_to IS NULL",
        ),
        part_column(),
    ),
    key=("cluster_id", "broker_id", "poll"),
    partition_by=("is_current", PART),
    live="is_current",
    over=("valid_to",),
)

CONTROLLER_CHANGES = Table(
    schema="gold",
    name="controller_changes",
    comment=(
        "One row for each time that the controllers elected an active one, the same one too "
        "(controllers' log)."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns("""
            controller_id int NOT NULL -- The active controller afterwards.
            controller_epoch int NOT NULL -- Its epoch, the leader epoch of the controllers' log.
            prev_controller_id int -- The active one before; null where that is not known.
            prev_controller_epoch int -- Its epoch; null where that is not known.
        """),
        *POLL,
        *BEGAN,
    ),
    key=("id",),
    cluster_by=("cluster_id", "began_before"),
    over=("began_before",),
)

VOTER_CHANGES = Table(
    schema="internal",
    name="voter_changes",
    comment=(
        "One row for each time that controllers were added to the quorum, or removed (KIP-853), as "
        "the controllers' log has it. gold.voter_changes has what polls saw, too."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns("""
            voters array<int> NOT NULL -- Controllers that vote afterwards, sorted.
            prev_voters array<int> NOT NULL -- Those before, sorted.
        """),
        *POLL,
        *BEGAN,
    ),
    key=("id",),
    cluster_by=("cluster_id", "began_before"),
    over=("began_before",),
)

MARKS = Table(
    schema="gold",
    name="marks",
    comment=(
        "Changes and windows of maintenance that people have marked (`kafka-metadata-history "
        "mark`). Nothing that polls saw is changed by a mark."
    ),
    columns=columns("""
        id string NOT NULL -- <made at, UTC>-<random>. Sorts as text in the order of making.
        cluster string -- Alias of the cluster; null: of all.
        text string NOT NULL -- The text of the mark.
        since timestamp NOT NULL -- The time that is marked, or when the window begins.
        until timestamp -- When the window ends; null of a mark that has no length.
        made_at timestamp NOT NULL -- When the mark was made.
        made_by string NOT NULL -- The user of the machine who made it.
    """),
    key=("id",),
    constraints={"bounds_in_order": "until IS NULL OR since <= until"},
)

ACCESS_CHANGES = Table(
    schema="gold",
    name="access_changes",
    comment=(
        "One row for each ACL, or client quota, that somebody added, removed or changed, without "
        "what it says (controllers' log)."
    ),
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        *columns("""
            change string NOT NULL -- acl_added | acl_removed | quota_changed (set or removed).
        """),
        *POLL,
        *BEGAN,
    ),
    key=("id",),
    constraints={"change_known": "change IN ('acl_added', 'acl_removed', 'quota_changed')"},
    cluster_by=("cluster_id", "began_before"),
    over=("began_before",),
)

ISR_TABLES = (ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS)
LEADER_TABLES = (LEADER_CHANGES, LEADER_BALANCE)
OF_LOG = (CONTROLLER_CHANGES, VOTER_CHANGES, ACCESS_CHANGES)
"""Events that the controllers' log alone tells."""
TABLES = (*ISR_TABLES, *LEADER_TABLES, STALE_BROKERS, *OF_LOG)
"""The tables that the rules make: all but MARKS."""
