"""Silver: state over time. A row is one distinct accepted state, from the first poll that showed it
to the first that did not.
"""

from pathlib import Path

from metadata_source.columns.polls import MEMBER
from schemas.table import PART, Column, Table, View, part_column, sql_type

CLUSTER_COLUMNS = (
    Column("cluster_id", "string", "Kafka's id of the cluster.", nullable=False),
    Column("cluster", "string", "Alias of the cluster; one to one with its id.", nullable=False),
)

INTERVAL_COLUMNS = (
    Column("first_poll", "string", "First accepted poll that showed this state.", nullable=False),
    Column(
        "valid_from",
        "timestamp",
        "When that poll was answered; of a state that an answer beside polls tells, when that "
        "answer had come (made non-decreasing by cluster).",
        nullable=False,
    ),
    Column(
        "prev_poll",
        "string",
        (
            "Accepted poll before first_poll, the last without this state; null for the cluster's "
            "first."
        ),
    ),
    Column(
        "prev_sent_at",
        "timestamp",
        "When prev_poll was sent, or the question beside it was asked: the state began after this.",
    ),
    Column(
        "interval_ms",
        "bigint",
        "Planned interval of polls at first_poll, ms; 0 in the controllers' log.",
    ),
    Column(
        "from_offset",
        "bigint",
        (
            "Offset in the controllers' log of the record that brought the state; null where a "
            "poll showed it."
        ),
    ),
    Column("last_poll", "string", "Last accepted poll that showed it; null while current."),
    Column(
        "last_seen_at",
        "timestamp",
        (
            "When last_poll, or the question beside it, was answered; null while current (see the "
            "views for now)."
        ),
    ),
    Column(
        "last_seen_sent_at",
        "timestamp",
        "When last_poll was sent, or the question beside it was asked: the state ended after this.",
    ),
    Column("superseded_poll", "string", "First accepted poll that disagreed; null while current."),
    Column(
        "valid_to",
        "timestamp",
        (
            "When that poll, or the question beside it, was answered: the state had ended by "
            "then. Null while current."
        ),
    ),
    Column(
        "to_offset",
        "bigint",
        "Offset in the controllers' log of the record that ended the state; null while current, "
        "and where a poll showed it.",
    ),
    Column(
        "end_reason",
        "string",
        "Why the thing itself ended: recreated (inferred where there are no topic ids) | "
        "unauthorized | gone (inferred) | not_polled. Null: another state followed.",
    ),
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
    *(
        "last_poll",
        "last_seen_at",
        "last_seen_sent_at",
        "superseded_poll",
        "valid_to",
        "to_offset",
        "end_reason",
    ),
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
    "end_has_reason": "end_reason IS NULL OR (valid_to IS NOT NULL "
    "AND end_reason IN ('recreated', 'unauthorized', 'gone', 'not_polled'))",
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
    """`memory`: columns that change within a state."""
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
    state=(
        Column("host", "string", "Advertised host."),
        Column("port", "int", "Advertised port."),
        Column("rack", "string", "broker.rack; null when none is set or the answer could not say."),
    ),
)

TOPIC_SNAPSHOTS = _interval_table(
    "topic_snapshots",
    "Topics over time. A change of a leader or an ISR makes no row here.",
    key=(TOPIC, TOPIC_ID),
    state=(
        Column("error_code", "int", "Kafka's error code of the topic; 0 is none."),
        Column(
            "is_internal",
            "boolean",
            "Kafka's own topic; null when the answers cannot say (Metadata v0).",
        ),
        Column(
            "partition_count", "int", "Number of partitions; null while only errors were answered."
        ),
    ),
)

PARTITION_SNAPSHOTS = _interval_table(
    "partition_snapshots",
    "Partitions over time: leader, leader epoch, replicas, ISR, offline replicas.",
    key=(TOPIC, TOPIC_ID, PARTITION),
    state=(
        Column(
            "error_code",
            "int",
            (
                "Kafka's error code of the partition: 5 no leader, 72 listener not found, ...; 0 "
                "is none."
            ),
        ),
        Column(
            "leader",
            "int",
            "Leading broker; -1 when there is none. Null, as the columns that follow, where it "
            "means nothing: cluster_snapshots.not_meaningful.",
        ),
        Column(
            "leader_epoch",
            "int",
            "Leader epoch; null before Metadata v9, where it cannot be trusted (KAFKA-9212).",
        ),
        Column(
            "replicas",
            "array<int>",
            "Assigned brokers, in order: the first is the preferred leader. Null, as the columns "
            "that follow, where the answer has a broker twice among them.",
        ),
        Column(
            "isr",
            "array<int>",
            "In-sync replicas, a sorted set; null where the answer has a broker twice in it.",
        ),
        Column(
            "offline_replicas",
            "array<int>",
            "Replicas that are not available, a sorted set; null before Metadata v5, and where the "
            "answer has a broker twice among them.",
        ),
    ),
    partition_number="partition >= 0",
)

CLUSTER_SNAPSHOTS = _interval_table(
    "cluster_snapshots",
    "Clusters over time: the alias, the finalized levels (versions of features that are in force) "
    "that decide what leader epochs mean, and which facts mean nothing there.",
    key=(),
    state=(
        Column(
            "metadata_version_level",
            "int",
            "Finalized level of metadata.version; null while unknown.",
        ),
        Column(
            "metadata_version_highest",
            "int",
            "Highest level of metadata.version that each broker has of those that are listed and "
            "have answered: their software. Null while none has told, and while the controllers' "
            "log tells.",
        ),
        Column(
            "elr_version_level",
            "int",
            "Finalized level of eligible.leader.replicas.version; null while unknown.",
        ),
        Column(
            "kind",
            "string",
            (
                "The maker, as declared: kafka | confluent | redpanda | warpstream | automq | "
                "eventhubs."
            ),
            nullable=False,
        ),
        Column(
            "not_meaningful",
            "array<string>",
            "Facts that mean nothing of this kind, each with why (`isr: ...`). A column of that "
            "name is null in partition_snapshots; other tables have no rows, or nulls, of what "
            "follows from it.",
            nullable=False,
        ),
    ),
)

# --- enrichments: "poll" means one in which this kind was answered ---

TOPIC_CONFIGS = _interval_table(
    "topic_configs",
    "Settings of topics over time, as they are in effect (enrichment configs).",
    key=(TOPIC,),
    state=(
        Column(
            "min_insync_replicas",
            "int",
            "min.insync.replicas; null where nobody tells it: it may not be read, was not asked, "
            "or, while the controllers' log tells, a broker has a dynamic value of its own.",
        ),
        Column(
            "unclean_leader_election_enable",
            "boolean",
            "unclean.leader.election.enable; null as the other.",
        ),
    ),
)

REASSIGNMENTS = _interval_table(
    "reassignments",
    (
        "Reassignments of partitions over time; a row is there while one lasts (enrichment "
        "reassignments)."
    ),
    key=(TOPIC, PARTITION),
    state=(
        Column("adding_replicas", "array<int>", "Replicas that it adds, sorted."),
        Column("removing_replicas", "array<int>", "Replicas that it will remove, sorted."),
    ),
)

QUORUM = _interval_table(
    "quorum",
    "The controller quorum over time (enrichment quorum).",
    key=(),
    state=(
        Column("controller_id", "int", "The active controller; -1 when there is none."),
        Column("quorum_epoch", "int", "Its epoch."),
        Column("voters", "array<int>", "Controllers that vote, sorted."),
    ),
)

PARTITION_ELR = _interval_table(
    "partition_elr",
    "Eligible and last known leaders of partitions over time (KIP-966); a row is there while one "
    "is not empty (enrichment elr).",
    key=(TOPIC, PARTITION),
    state=(
        Column("elr", "array<int>", "Eligible leader replicas, sorted."),
        Column("last_known_elr", "array<int>", "Last known eligible leader replicas, sorted."),
    ),
)

FENCED_BROKERS = _interval_table(
    "fenced_brokers",
    "Brokers that are registered, but fenced; a row is there while one is (enrichment fenced).",
    key=(Column("broker_id", "int", "Broker id.", nullable=False),),
    state=(
        Column("host", "string", "Advertised host."),
        Column("port", "int", "Advertised port."),
        Column("rack", "string", "broker.rack; null when none is set."),
    ),
)

GROUP_ID = Column("group_id", "string", "Consumer, share or streams group.", nullable=False)

GROUP_SNAPSHOTS = _interval_table(
    "group_snapshots",
    (
        "Groups over time, as their coordinators described them: a row is there while a group "
        "exists (enrichment groups)."
    ),
    key=(GROUP_ID,),
    state=(
        Column(
            "group_type",
            "string",
            "classic | consumer (KIP-848) | share (KIP-932) | streams (KIP-1071); null before 3.8.",
        ),
        Column(
            "protocol_type",
            "string",
            "Of classic groups: consumer, connect, ...; null of the others.",
        ),
        Column(
            "state",
            "string",
            "As Kafka spells it: Stable, Empty, PreparingRebalance, CompletingRebalance, "
            "Assigning, Reconciling, NotReady, Dead.",
        ),
        Column(
            "group_epoch",
            "int",
            "Epoch of the group; null for classic groups, which do not tell their generation.",
        ),
        Column("target_epoch", "int", "Epoch of the target assignment; null for classic groups."),
        Column("topology_epoch", "int", "Epoch of a streams group's topology; null of the others."),
        Column(
            "assignor",
            "string",
            (
                "Assignor, or the protocol that a classic group agreed on; null where the "
                "coordinator names none."
            ),
        ),
        Column(
            "members",
            f"array<{sql_type(MEMBER)}>",
            "Members, sorted by member_id, each with its current and its target assignment; null "
            "if the group may not be described.",
        ),
    ),
)

ENRICHMENTS = {
    "configs": TOPIC_CONFIGS,
    "reassignments": REASSIGNMENTS,
    "quorum": QUORUM,
    "elr": PARTITION_ELR,
    "fenced": FENCED_BROKERS,
    "groups": GROUP_SNAPSHOTS,
}
"""Kind of enrichment -> its table."""

# --- the controllers' log: "poll" means a record of it ---

BROKER_REGISTRATIONS = _interval_table(
    "broker_registrations",
    (
        "Brokers over time as the controllers have them registered, fenced ones too (controllers' "
        "log)."
    ),
    key=(Column("broker_id", "int", "Broker id.", nullable=False),),
    state=(
        Column("broker_epoch", "bigint", "Its epoch: each registration has a higher one."),
        Column("incarnation_id", "string", "Kafka's 22-character id of the run of its process."),
        Column("rack", "string", "broker.rack; null when none is set."),
        Column(
            "is_fenced", "boolean", "The controllers do not count on it: clients are not shown it."
        ),
        Column(
            "in_controlled_shutdown", "boolean", "It has asked to stop, and leads nothing any more."
        ),
        Column(
            "log_dirs",
            "array<string>",
            (
                "Ids of its log directories that are online, sorted; empty before 3.7-IV2, which "
                "knows none."
            ),
        ),
    ),
)

PARTITION_REGISTRATIONS = _interval_table(
    "partition_registrations",
    (
        "Partitions over time as the controllers have them registered: all that no client is "
        "shown (controllers' log)."
    ),
    key=(TOPIC, TOPIC_ID, PARTITION),
    state=(
        Column(
            "is_recovering",
            "boolean",
            "Its leader was elected unclean, and has not recovered yet (from 3.2-IV0 on).",
        ),
        Column(
            "directories",
            "array<string>",
            "Ids of the log directories of its replicas, in their order. Null in it: the log has "
            "none yet. AAAAAAAAAAAAAAAAAAAAAQ: not assigned. AAAAAAAAAAAAAAAAAAAAAg: lost.",
        ),
    ),
    memory=(
        Column(
            "partition_epoch",
            "int",
            "Its epoch after the last record in this state: one more for each.",
        ),
        Column("leader", "int", "Leading broker after that record; -1 none."),
        Column("leader_epoch", "int", "Leader epoch after that record."),
        Column("replicas", "array<int>", "Assigned brokers after that record, in order."),
        Column("isr", "array<int>", "In-sync replicas after that record."),
        Column(
            "adding_replicas", "array<int>", "Replicas that a reassignment adds, after that record."
        ),
        Column(
            "removing_replicas",
            "array<int>",
            "Replicas that a reassignment will remove, after that record.",
        ),
        Column("elr", "array<int>", "Eligible leader replicas after that record."),
        Column(
            "last_known_elr", "array<int>", "Last known eligible leader replicas after that record."
        ),
    ),
)

CONFIGS = _interval_table(
    "configs",
    (
        "Configurations over time that somebody has set, as they are set; a row is there while "
        "one is (controllers' log)."
    ),
    key=(
        Column(
            "resource_type",
            "int",
            "2 topic, 4 broker, 16 client metrics, 32 group.",
            nullable=False,
        ),
        Column("resource_name", "string", "Its name; empty for all brokers.", nullable=False),
        Column("name", "string", "Name of the configuration.", nullable=False),
    ),
    state=(
        Column(
            "value", "string", "Its value; null where it is not kept, since it may be a password."
        ),
    ),
)

FEATURES = _interval_table(
    "features",
    (
        "Finalized levels of features over time; a row is there while the level is not 0 "
        "(controllers' log)."
    ),
    key=(
        Column(
            "name",
            "string",
            "metadata.version, eligible.leader.replicas.version, ...",
            nullable=False,
        ),
    ),
    state=(Column("level", "int", "Finalized level."),),
)

OF_LOG = (BROKER_REGISTRATIONS, PARTITION_REGISTRATIONS, CONFIGS, FEATURES)
"""The tables of states over time that the controllers' log alone tells."""

HISTORY_SOURCES = _interval_table(
    "history_sources",
    (
        "The source of the history of topics, partitions and settings, over time: polls, or the "
        "controllers' log."
    ),
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
        Column("log_partition", "int", "Partition of __consumer_offsets.", nullable=False),
        Column(
            "poll",
            "string",
            "First accepted poll, or record of the controllers' log, that showed it.",
            False,
        ),
        Column(
            "source",
            "string",
            "Source that showed it: polls | log (the controllers' log).",
            nullable=False,
        ),
        Column(
            "began_after",
            "timestamp",
            "When the accepted poll before it was sent; null for the cluster's first.",
        ),
        Column("began_before", "timestamp", "When that poll was answered.", nullable=False),
        Column("leader", "int", "Leading broker, -1 none; null once the topic is gone."),
        Column("leader_epoch", "int", "Leader epoch; null where the answers do not tell."),
        Column("prev_leader", "int", "Leading broker before; null where that is not known."),
        Column("prev_leader_epoch", "int", "Leader epoch before; null where that is not known."),
        Column("is_move", "boolean", "Another broker leads than before.", nullable=False),
        Column(
            "followed_until",
            "timestamp",
            (
                "A rebalance that began by then followed it: two poll intervals, or 15 s, after "
                "began_before."
            ),
            nullable=False,
        ),
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
        Column("after_poll", "string", "Accepted poll before the gap.", nullable=False),
        Column("gap_start", "timestamp", "When after_poll was answered.", nullable=False),
        Column("until_poll", "string", "Accepted poll that ended the gap.", nullable=False),
        Column("gap_end", "timestamp", "When until_poll was answered.", nullable=False),
        Column(
            "interval_ms",
            "bigint",
            "Planned interval, the longer of both ends', ms.",
            nullable=False,
        ),
        Column("failed_polls", "bigint", "Failed polls within it.", nullable=False),
        Column(
            "stale_polls",
            "bigint",
            "Answers within it that were older than what had been accepted.",
            nullable=False,
        ),
        Column(
            "refused_polls",
            "bigint",
            "Answers within it that came from another cluster than the alias names.",
            nullable=False,
        ),
        Column(
            "error_kinds", "array<string>", "Kinds of the failed polls, sorted.", nullable=False
        ),
        Column(
            "reason",
            "string",
            "failed | refused | stale | not_polled (nobody ran, or ticks were missed).",
            nullable=False,
        ),
    ),
    key=("cluster_id", "until_poll"),
    constraints={"reason_known": "reason IN ('failed', 'refused', 'stale', 'not_polled')"},
    cluster_by=("cluster_id", "gap_end"),
    over=("gap_end",),
)


def _now(snapshots: Table, what: str, last_seen_at: str = "p.last_seen_at") -> View:
    columns = ",\n  ".join(
        f"coalesce(s.last_seen_at, {last_seen_at}) AS last_seen_at"
        if name == "last_seen_at"
        else f"s.{name}"
        for name in snapshots.column_names
        if name
        not in {
            "last_poll",
            "last_seen_sent_at",
            "superseded_poll",
            "valid_to",
            "to_offset",
            "end_reason",
            PART,
        }
    )
    return View(
        schema="silver",
        name=snapshots.name.replace("_snapshots", "s_now"),
        comment=f"{what} as of the latest accepted poll of each cluster.",
        parts=(
            f"""SELECT
  {columns}
FROM {{{snapshots.full_name}}} s JOIN {{internal.state}} p USING (cluster)
WHERE s.is_current AND p.history = 'silver'""",  # noqa: S608 - names of our own
        ),
        meanings=(("last_seen_at", "When the last accepted poll that showed it was answered."),),
    )


_AS_TOLD = (
    "CASE WHEN p.told_by = 'log' THEN p.done_at WHEN array_contains(p.missing, s.topic) THEN "
    "p.before_seen_at ELSE p.last_seen_at END"
)

_REACH = """SELECT s.cluster_id, s.cluster,
  greatest(s.began, r.silver_since) AS silver_from,
  greatest(s.began, r.gold_since) AS gold_from,
  p.done_at AS until
FROM (
  SELECT cluster_id, cluster, min(valid_from) AS began FROM {silver.cluster_snapshots}
  GROUP BY cluster_id, cluster
) s
LEFT JOIN {internal.state} p ON p.cluster = s.cluster AND p.history = 'silver'
CROSS JOIN (
  SELECT max(CASE WHEN history = 'retention of silver' THEN done_at END) AS silver_since,
    max(CASE WHEN history = 'retention of gold' THEN done_at END) AS gold_since
  FROM {internal.state}
) r"""

REACH = View(
    schema="silver",
    name="reach",
    comment=(
        "From when to when the history of each cluster reaches. Rows that were over before "
        "silver_from, or gold_from, are not there, or not all of them: nobody polled yet, or "
        "retention has dropped them."
    ),
    parts=(_REACH,),
    meanings=(
        ("silver_from", "From when on silver is whole."),
        ("gold_from", "From when on gold is whole."),
        ("until", "Up to when polls became history."),
    ),
)

OBSERVED = View(
    schema="silver",
    name="observed",
    comment=(
        "Up to when each history of each cluster was observed, and when it was not. "
        "docs/queries.md says how queries count with it."
    ),
    parts=((Path(__file__).parent / "views" / "observed.sql").read_text(encoding="utf-8"),),
    meanings=(
        (
            "history",
            (
                "isr_shrink | leader_churn (ISRs, leaders: by polls, or by the controllers' log "
                "while it tells of topics) | polls (what polls alone tell: brokers that answer or "
                "are listed, states of groups) | rebalance_history (rebalances that polls tell) | "
                "group_log (rebalances, commits: the coordinators' log) | group_lag | cluster_log "
                "(what the controllers' log alone tells)."
            ),
        ),
        (
            "until",
            (
                "The last observation that the history has taken. Of the coordinators' log: when "
                "its newest rows were read. Null where that is not known."
            ),
        ),
        (
            "gaps",
            (
                "When nobody looked; none overlap. The one before the first poll has no gap_start, "
                "the one after `until` no gap_end. The others are gaps between polls "
                "(silver.poll_gaps); of ISRs and leaders only those in which the controllers' log "
                "did not tell. Null where none is known."
            ),
        ),
    ),
)

VIEWS = (
    REACH,
    OBSERVED,
    _now(BROKER_SNAPSHOTS, "Brokers"),
    _now(TOPIC_SNAPSHOTS, "Topics", _AS_TOLD),
    _now(PARTITION_SNAPSHOTS, "Partitions", _AS_TOLD),
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
