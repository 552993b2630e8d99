"""Silver: state over time. A row is one distinct accepted state, from the first poll that showed it
to the first that did not.
"""

from metadata_source.columns.polls import MEMBER
from schemas.table import PART, Column, Table, columns, part_column, sql_type

CLUSTER_COLUMNS = columns("""
    cluster_id string NOT NULL -- Kafka's id of the cluster.
    cluster string NOT NULL -- Alias of the cluster; one to one with its id.
""")

INTERVAL_COLUMNS = (
    *columns("""
        first_poll string NOT NULL -- First accepted poll that showed this state.
        valid_from timestamp NOT NULL -- When that poll was answered; of a state that an answer
            beside polls tells, when that answer had come (made non-decreasing by cluster).
        prev_poll string -- Accepted poll before first_poll, the last without this state; null for
            the cluster's first.
        prev_sent_at timestamp -- When prev_poll was sent, or the question beside it was asked: the
            state began after this.
        interval_ms bigint -- Planned interval of polls at first_poll, ms; 0 in the controllers'
            log.
        from_offset bigint -- Offset in the controllers' log of the record that brought the state;
            null where a poll showed it.
        last_poll string -- Last accepted poll that showed it; null while current.
        last_seen_at timestamp -- When last_poll, or the question beside it, was answered; null
            while current (see the views for now).
        last_seen_sent_at timestamp -- When last_poll was sent, or the question beside it was asked:
            the state ended after this.
        superseded_poll string -- First accepted poll that disagreed; null while current.
        valid_to timestamp -- When that poll, or the question beside it, was answered: the state had
            ended by then. Null while current.
        to_offset bigint -- Offset in the controllers' log of the record that ended the state; null
            while current, and where a poll showed it.
        end_reason string -- Why the thing itself ended: recreated (inferred where there are no
            topic ids) | unauthorized | gone (inferred) | not_polled. Null: another state followed.
    """),
    # The current rows have files of their own: a round reads and rewrites those alone, however long
    # the history is.
    Column(
        "is_current",
        "boolean",
        "valid_to IS NULL.",
        nullable=False,
        generated_as="valid_to IS NULL",
    ),
)

INTERVAL_ENDS = (
    "last_poll",
    "last_seen_at",
    "last_seen_sent_at",
    "superseded_poll",
    "valid_to",
    "to_offset",
    "end_reason",
)
"""The columns that change once a row is written, when it ends; `is_current` follows them."""

INTERVAL_CONSTRAINTS = {
    "end_is_whole": (
        "(valid_to IS NULL) = (superseded_poll IS NULL) AND (valid_to IS NULL) = (last_poll IS "
        "NULL)"
    ),
    "times_in_order": (
        "valid_to IS NULL OR (valid_to >= last_seen_at AND last_seen_at >= valid_from)"
    ),
    "polls_in_order": (
        "superseded_poll IS NULL OR (superseded_poll > last_poll AND last_poll >= first_poll)"
    ),
    "end_has_reason": (
        "end_reason IS NULL OR (valid_to IS NOT NULL AND end_reason IN ('recreated', "
        "'unauthorized', 'gone', 'not_polled'))"
    ),
}


def _prev(column: Column) -> Column:
    return Column(
        f"prev_{column.name}",
        column.type,
        f"{column.name} in the row before; null for the first row.",
    )


def _interval_table(
    name: str,
    comment: str,
    key: tuple[Column, ...],
    state: tuple[Column, ...],
    memory: tuple[Column, ...] = (),
    **constraints: str,
) -> Table:
    """`memory`: columns that are no part of a state: they may change within it."""
    prev = tuple(map(_prev, state))
    return Table(
        schema="silver",
        name=name,
        comment=comment,
        columns=CLUSTER_COLUMNS + key + state + prev + memory + INTERVAL_COLUMNS + (part_column(),),
        # Not the topic id, which may be unknown: a name has one state in a poll.
        key=(
            "cluster_id",
            *(column.name for column in key if column.name != "topic_id"),
            "first_poll",
        ),
        constraints={**INTERVAL_CONSTRAINTS, **constraints},
        partition_by=("is_current", PART),
        live="is_current",
        over=("valid_to",),
    )


TOPIC = Column("topic", "string", "Topic name.", nullable=False)
TOPIC_ID = Column(
    "topic_id",
    "string",
    "Kafka's 22-character id; null while no answer has shown it (before Metadata v10).",
)
PARTITION = Column("partition", "int", "Partition number.", nullable=False)

BROKER_SNAPSHOTS = _interval_table(
    "broker_snapshots",
    "Brokers over time, as listed by the cluster: live and not fenced.",
    key=(Column("broker_id", "int", "Broker id.", nullable=False),),
    state=columns("""
        host string -- Advertised host.
        port int -- Advertised port.
        rack string -- broker.rack; null when none is set or the answer could not say.
    """),
)

TOPIC_SNAPSHOTS = _interval_table(
    "topic_snapshots",
    "Topics over time. A change of a leader or an ISR makes no row here.",
    key=(TOPIC, TOPIC_ID),
    state=columns("""
        error_code int -- Kafka's error code of the topic; 0 is none.
        is_internal boolean -- Kafka's own topic; null when the answers cannot say (Metadata v0).
        partition_count int -- Number of partitions; null while only errors were answered.
    """),
)

PARTITION_SNAPSHOTS = _interval_table(
    "partition_snapshots",
    "Partitions over time: leader, leader epoch, replicas, ISR, offline replicas.",
    key=(TOPIC, TOPIC_ID, PARTITION),
    state=columns("""
        error_code int -- Kafka's error code of the partition: 5 no leader, 72 listener not found,
            ...; 0 is none.
        leader int -- Leading broker; -1 when there is none. Null, as the columns that follow, where
            it means nothing: cluster_snapshots.not_meaningful.
        leader_epoch int -- Leader epoch; null before Metadata v9, where it cannot be trusted
            (KAFKA-9212).
        replicas array<int> -- Assigned brokers, in order: the first is the preferred leader. Null,
            as the columns that follow, where the answer has a broker twice among them.
        isr array<int> -- In-sync replicas, a sorted set; null where the answer has a broker twice
            in it.
        offline_replicas array<int> -- Replicas that are not available, a sorted set; null before
            Metadata v5, and where the answer has a broker twice among them.
    """),
    partition_number="partition >= 0",
)

CLUSTER_SNAPSHOTS = _interval_table(
    "cluster_snapshots",
    "Clusters over time: the alias, the finalized levels (versions of features that are in "
    "force) that decide what leader epochs mean, and which facts mean nothing there.",
    key=(),
    state=columns("""
        metadata_version_level int -- Finalized level of metadata.version; null while unknown.
        metadata_version_highest int -- Highest level of metadata.version that each broker has of
            those that are listed and have answered: their software. Null while none has told, and
            while the controllers' log tells.
        elr_version_level int -- Finalized level of eligible.leader.replicas.version; null while
            unknown.
        kind string NOT NULL -- The maker, as declared: kafka | confluent | redpanda | warpstream |
            automq | eventhubs.
        not_meaningful array<string> NOT NULL -- Facts that mean nothing of this kind, each with why
            (`isr: ...`). A column of that name is null in partition_snapshots; other tables have no
            rows, or nulls, of what follows from it.
    """),
)

# --- enrichments: "poll" means one in which this kind was answered ---

TOPIC_CONFIGS = _interval_table(
    "topic_configs",
    "Settings of topics over time, as they are in effect (enrichment configs).",
    key=(TOPIC,),
    state=columns("""
        min_insync_replicas int -- min.insync.replicas; null where nobody tells it: it may not be
            read, was not asked, or, while the controllers' log tells, a broker has a dynamic value
            of its own.
        unclean_leader_election_enable boolean -- unclean.leader.election.enable; null as the other.
    """),
)

REASSIGNMENTS = _interval_table(
    "reassignments",
    "Reassignments of partitions over time; a row is there while one lasts (enrichment "
    "reassignments).",
    key=(TOPIC, PARTITION),
    state=columns("""
        adding_replicas array<int> -- Replicas that it adds, sorted.
        removing_replicas array<int> -- Replicas that it will remove, sorted.
    """),
)

QUORUM = _interval_table(
    "quorum",
    "The active controller and its quorum over time (enrichment quorum). With ZooKeeper, where "
    "there is no quorum, the controller alone, as each poll names it.",
    key=(),
    state=columns("""
        controller_id int -- The active controller; -1 when there is none.
        quorum_epoch int -- Its epoch; null with ZooKeeper, as the columns that follow.
        voters array<int> -- Controllers that vote, sorted.
        observers array<int> -- Who follows the controllers' log without a vote, sorted: brokers,
            mostly. One that did not fetch for five minutes is none any more.
        voters_behind array<int> -- Voters that were not caught up with the active controller in the
            last 2 s, sorted; null while that is not told (before Kafka 3.3).
        observers_behind array<int> -- Observers that were not in the last 9 s, sorted; null as the
            other.
    """),
    memory=columns("""
        behind array<struct<replica_id: int, is_voter: boolean, offsets: bigint, caught_up_at:
            timestamp>> -- Of voters and observers that were behind: by how many offsets in the
            first answer that showed this state, and when they had all that the active controller
            had, by its clock; null in it where it never saw that. Null as voters_behind.
    """),
)

PARTITION_ELR = _interval_table(
    "partition_elr",
    "Eligible and last known leaders of partitions over time (KIP-966); a row is there while "
    "one is not empty (enrichment elr).",
    key=(TOPIC, PARTITION),
    state=columns("""
        elr array<int> -- Eligible leader replicas, sorted.
        last_known_elr array<int> -- Last known eligible leader replicas, sorted.
    """),
)

FENCED_BROKERS = _interval_table(
    "fenced_brokers",
    "Brokers that are registered, but fenced; a row is there while one is (enrichment fenced).",
    key=(Column("broker_id", "int", "Broker id.", nullable=False),),
    state=columns("""
        host string -- Advertised host.
        port int -- Advertised port.
        rack string -- broker.rack; null when none is set.
    """),
)

GROUP_ID = Column("group_id", "string", "Consumer, share or streams group.", nullable=False)

GROUP_SNAPSHOTS = _interval_table(
    "group_snapshots",
    "Groups over time, as their coordinators described them: a row is there while a group "
    "exists (enrichment groups).",
    key=(GROUP_ID,),
    state=(
        *columns("""
            group_type string -- classic | consumer (KIP-848) | share (KIP-932) | streams
                (KIP-1071); null before 3.8.
            protocol_type string -- Of classic groups: consumer, connect, ...; null of the others.
            state string -- As Kafka spells it: Stable, Empty, PreparingRebalance,
                CompletingRebalance, Assigning, Reconciling, NotReady, Dead.
            group_epoch int -- Epoch of the group; null for classic groups, which do not tell their
                generation.
            target_epoch int -- Epoch of the target assignment; null for classic groups.
            topology_epoch int -- Epoch of a streams group's topology; null of the others.
            assignor string -- Assignor, or the protocol that a classic group agreed on; null where
                the coordinator names none.
        """),
        Column(
            "members",
            f"array<{sql_type(MEMBER)}>",
            "Members, sorted by member_id, each with its current and its target assignment; "
            "null if the group may not be described.",
        ),
    ),
)

OPEN_TRANSACTIONS = _interval_table(
    "open_transactions",
    "Transactions over time that are open for long, as their coordinators described them, and "
    "those that hang (KIP-664): open on a partition, with none of the same producer id and epoch "
    "at any coordinator (enrichment transactions).",
    key=columns("""
        opened_by string NOT NULL -- The transactional id; a long one is cut as in
            bronze.metadata_polls. Of one that hangs the producer id and the partition: 7 on t-0.
        is_hanging boolean NOT NULL -- Inferred: it is open on the partition, and no coordinator has
            it. Only an administrator ends it.
    """),
    state=columns("""
        state string -- In Kafka's words: Ongoing (longer than its time-out or five minutes) |
            PrepareCommit | PrepareAbort (it began half a minute ago, and markers are not all
            written) | PrepareEpochFence.
        producer_id bigint -- Producer id.
        producer_epoch int -- Epoch of the producer id.
        timeout_ms int -- Its time-out, ms; 2147483647 is none. Null of one that hangs.
        started_at timestamp -- When it began (coordinator's clock). Null of one that hangs.
        coordinator int -- Broker that coordinates it. Null of one that hangs.
        partition_count int -- Partitions of the transaction; once prepared those without a
            marker. Topics that the user may not describe are left out.
        partitions array<struct<topic: string, partition: int>> -- The first 200 of these, sorted.
        start_offset bigint -- Of one that hangs: the offset at which it begins.
        coordinator_epoch int -- Of one that hangs: of the producer's last marker there; -1: none.
        last_written_at timestamp -- Of one that hangs: the timestamp of the producer's last
            record there.
    """),
)

LOG_DIRS = _interval_table(
    "log_dirs",
    "Log directories of brokers over time, as each broker told them: a row is there while its "
    "broker is listed (enrichment log_dirs).",
    key=columns("""
        broker_id int NOT NULL -- Broker id.
        log_dir string NOT NULL -- Path of the directory on the broker.
    """),
    state=columns("""
        is_online boolean -- False: it has failed (56), and is not used any more. Null: another one.
        error_code int -- Kafka's error code: 0 is none, 56 KAFKA_STORAGE_ERROR.
        total_bytes bigint -- Size of the volume that it is in; null before Kafka 3.3, and while it
            has failed.
    """),
)

ENRICHMENTS = {
    "configs": TOPIC_CONFIGS,
    "reassignments": REASSIGNMENTS,
    "quorum": QUORUM,
    "elr": PARTITION_ELR,
    "fenced": FENCED_BROKERS,
    "groups": GROUP_SNAPSHOTS,
    "transactions": OPEN_TRANSACTIONS,
    "log_dirs": LOG_DIRS,
}
"""Kind of enrichment -> its table."""

# --- the controllers' log: "poll" means a record of it ---

BROKER_REGISTRATIONS = _interval_table(
    "broker_registrations",
    "Brokers over time as the controllers have them registered, fenced ones too (controllers' "
    "log).",
    key=(Column("broker_id", "int", "Broker id.", nullable=False),),
    state=columns("""
        broker_epoch bigint -- Its epoch: each registration has a higher one.
        incarnation_id string -- Kafka's 22-character id of the run of its process.
        rack string -- broker.rack; null when none is set.
        is_fenced boolean -- The controllers do not count on it: clients are not shown it.
        in_controlled_shutdown boolean -- It has asked to stop, and leads nothing any more.
        log_dirs array<string> -- Ids of its log directories that are online, sorted; empty before
            3.7-IV2, which knows none.
    """),
)

PARTITION_REGISTRATIONS = _interval_table(
    "partition_registrations",
    "Partitions over time as the controllers have them registered: all that no client is shown "
    "(controllers' log).",
    key=(TOPIC, TOPIC_ID, PARTITION),
    state=columns("""
        is_recovering boolean -- Its leader was elected unclean, and has not recovered yet (from
            3.2-IV0 on).
        directories array<string> -- Ids of the log directories of its replicas, in their order.
            Null in it: the log has none yet. AAAAAAAAAAAAAAAAAAAAAQ: not assigned.
            AAAAAAAAAAAAAAAAAAAAAg: lost.
    """),
    memory=columns("""
        partition_epoch int -- Its epoch after the last record in this state: one more for each.
        leader int -- Leading broker after that record; -1 none.
        leader_epoch int -- Leader epoch after that record.
        replicas array<int> -- Assigned brokers after that record, in order.
        isr array<int> -- In-sync replicas after that record.
        adding_replicas array<int> -- Replicas that a reassignment adds, after that record.
        removing_replicas array<int> -- Replicas that a reassignment will remove, after that record.
        elr array<int> -- Eligible leader replicas after that record.
        last_known_elr array<int> -- Last known eligible leader replicas after that record.
    """),
)

CONFIGS = _interval_table(
    "configs",
    "Configurations over time that somebody has set, as they are set; a row is there while one "
    "is (controllers' log). Each setting of one whose value is not kept is a row.",
    key=columns("""
        resource_type int NOT NULL -- 2 topic, 4 broker, 16 client metrics, 32 group.
        resource_name string NOT NULL -- Its name; empty for all brokers.
        name string NOT NULL -- Name of the configuration.
    """),
    state=columns("""
        value string -- Its value; null where it is not kept, since it may be a password: all but
            those of Kafka that cannot hold one (docs/security.md).
    """),
)

FEATURES = _interval_table(
    "features",
    "Finalized levels of features over time; a row is there while the level is not 0 "
    "(controllers' log).",
    key=columns("""
        name string NOT NULL -- metadata.version, eligible.leader.replicas.version, ...
    """),
    state=(Column("level", "int", "Finalized level."),),
)

OF_LOG = (BROKER_REGISTRATIONS, PARTITION_REGISTRATIONS, CONFIGS, FEATURES)
"""The tables of states over time that the controllers' log alone tells."""

HISTORY_SOURCES = _interval_table(
    "history_sources",
    "The source of the history of topics, partitions and settings, over time: polls, or the "
    "controllers' log.",
    key=(),
    state=(Column("source", "string", "polls | log.", nullable=False),),
    source_known="source IN ('polls', 'log')",
)

COORDINATORS = Table(
    schema="silver",
    name="coordinators",
    comment=(
        "Who leads the partitions of __consumer_offsets, and so coordinates their groups: a row "
        "for each change, or end."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        *columns("""
            log_partition int NOT NULL -- Partition of __consumer_offsets.
            poll string NOT NULL -- First accepted poll, or record of the controllers' log, that
                showed it.
            source string NOT NULL -- Source that showed it: polls | log (the controllers' log).
            began_after timestamp -- When the accepted poll before it was sent; null for the
                cluster's first.
            began_before timestamp NOT NULL -- When that poll was answered.
            leader int -- Leading broker, -1 none; null once the topic is gone.
            leader_epoch int -- Leader epoch; null where the answers do not tell.
            prev_leader int -- Leading broker before; null where that is not known.
            prev_leader_epoch int -- Leader epoch before; null where that is not known.
            is_move boolean NOT NULL -- Another broker leads than before.
            followed_until timestamp NOT NULL -- A rebalance that began by then followed it: two
                poll intervals, or 15 s, after began_before.
        """),
    ),
    key=("cluster_id", "log_partition", "poll"),
    cluster_by=("cluster_id", "began_before"),
    # Over, as its row says, once the next leader of the partition began.
    over=("began_before",),
)

POLL_GAPS = Table(
    schema="silver",
    name="poll_gaps",
    comment=(
        "Stretches between accepted polls longer than two planned intervals: nothing is known of "
        "what happened in them, but by the controllers' log where that was read."
    ),
    columns=(
        *CLUSTER_COLUMNS,
        *columns("""
            after_poll string NOT NULL -- Accepted poll before the gap.
            gap_start timestamp NOT NULL -- When after_poll was answered.
            until_poll string NOT NULL -- Accepted poll that ended the gap.
            gap_end timestamp NOT NULL -- When until_poll was answered.
            interval_ms bigint NOT NULL -- Planned interval, the longer of both ends', ms.
            failed_polls bigint NOT NULL -- Failed polls within it.
            stale_polls bigint NOT NULL -- Answers within it that were older than what had been
                accepted.
            refused_polls bigint NOT NULL -- Answers within it that came from another cluster than
                the alias names.
            error_kinds array<string> NOT NULL -- Kinds of the failed polls, sorted.
            reason string NOT NULL -- failed | refused | stale | not_polled (nobody ran, or ticks
                were missed).
        """),
    ),
    key=("cluster_id", "until_poll"),
    constraints={"reason_known": "reason IN ('failed', 'refused', 'stale', 'not_polled')"},
    cluster_by=("cluster_id", "gap_end"),
    over=("gap_end",),
)


SNAPSHOTS = (
    BROKER_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
    PARTITION_SNAPSHOTS,
    CLUSTER_SNAPSHOTS,
    *ENRICHMENTS.values(),
)
"""The tables of states over time."""

TABLES = (*SNAPSHOTS, *OF_LOG, HISTORY_SOURCES, POLL_GAPS, COORDINATORS)
