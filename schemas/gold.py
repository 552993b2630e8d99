"""Gold: what happened. Events and episodes, by the rules of jobs/rules/; what is inferred is called so.

Times are bounds: `*_after` is when the last poll without it was sent, `*_by` when the first poll with it was answered.
"""

from schemas.silver import CLUSTER_COLUMNS, PARTITION, TOPIC, TOPIC_ID
from schemas.table import Column, Table, View

ID = Column("id", "string", "Hash of the row's key and its opening poll.", nullable=False)
POLL = Column("poll", "string", "First accepted poll that showed it.", nullable=False)
BEGAN = (
    Column("began_after", "timestamp", "It began after this; null where no poll came before the first that showed it."),
    Column("began_by", "timestamp", "It had begun by this.", nullable=False),
)
UPDATED_AT = Column("updated_at", "timestamp", "When the row was last written.", nullable=False)
RACK = Column(
    "rack", "string", "Its rack, as listed by that poll or the one before; null when it has none or was not listed."
)

LEVELS = ("under_replicated", "at_min_isr", "under_min_isr", "offline")
"""From the mildest to the worst."""


def _ends(what: str) -> tuple[Column, ...]:
    return (
        Column("ended_poll", "string", f"First accepted poll in which {what}; null while it lasts."),
        Column("ended_after", "timestamp", "It ended after this; null while it lasts."),
        Column("ended_by", "timestamp", "It had ended by this; null while it lasts."),
        Column("duration_ms_min", "bigint", "It lasted at least this, ms; null while it lasts."),
        Column(
            "duration_ms_max",
            "bigint",
            "It lasted at most this, ms; null while it lasts, or where its begin has no bound.",
        ),
    )


def _is_open(condition: str) -> Column:
    # What a run may still have to change, in files of its own.
    return Column("is_open", "boolean", f"{condition}.", nullable=False, generated_as=condition)


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
        Column(
            "change",
            "string",
            "left | absent (a replica that was out of the ISR when the partition was first seen) | rejoined | joined (a replica "
            "that a reassignment had added).",
            nullable=False,
        ),
        Column("leader", "int", "Leader afterwards; -1 none."),
        Column("prev_leader", "int", "Leader before; null when the partition was not seen before."),
        Column("isr", "array<int>", "ISR afterwards, a sorted set."),
        Column("prev_isr", "array<int>", "ISR before, a sorted set."),
        Column("replicas", "array<int>", "Assigned brokers afterwards, in order."),
        POLL,
        *BEGAN,
        Column(
            "cause",
            "string",
            "Inferred, of brokers that left: broker_down | reassignment | leader_stalled | lagging. Null until cause_by.",
        ),
        Column("cause_by", "timestamp", "End of the look-ahead after which the cause is decided."),
        Column(
            "flapping",
            "boolean",
            "Of those that left: it left this ISR thresholds.flaps times or more within thresholds.flapWindow, this time included.",
        ),
        *_ends("it was back, was no replica any more, or the partition was gone"),
        Column(
            "ended_as",
            "string",
            "rejoined | removed (no replica any more) | or as the partition ended; null while it is out.",
        ),
        Column(
            "closed_by",
            "timestamp",
            "From then on the row changes no more; null while it is out, or its cause not decided.",
        ),
        UPDATED_AT,
        _is_open("closed_by IS NULL"),
    ),
    key=("id",),
    constraints={
        "change_known": "change IN ('left', 'absent', 'rejoined', 'joined')",
        "cause_known": "cause IS NULL OR (change IN ('left', 'absent') AND cause IN ('broker_down', 'reassignment', 'leader_stalled', 'lagging'))",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_by",
    },
    partition_by=("is_open",),
)

ISR_EPISODES = Table(
    schema="gold",
    name="isr_episodes",
    comment="One row for each stretch of a partition at a level. Levels do not exclude each other: what is under min ISR is under-replicated too.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        TOPIC,
        TOPIC_ID,
        PARTITION,
        Column(
            "level",
            "string",
            "under_replicated | at_min_isr (size of the ISR = effective min ISR) | under_min_isr (has a leader) | offline (no leader).",
            nullable=False,
        ),
        POLL,
        *BEGAN,
        *_ends("it was not at this level any more"),
        Column(
            "ended_as",
            "string",
            "Null: it recovered. unknown: its min ISR is not known any more. Else as the partition ended: recreated | unauthorized | absent | not_polled.",
        ),
        Column(
            "brokers_out", "array<int>", "Replicas that were out of the ISR at any time of it, sorted.", nullable=False
        ),
        Column("smallest_isr", "int", "Smallest size of the ISR in it.", nullable=False),
        Column("min_isr", "int", "Effective min ISR, the largest in it; null where it is not known (no enrichment)."),
        UPDATED_AT,
        _is_open("ended_poll IS NULL"),
    ),
    key=("id",),
    constraints={
        "level_known": f"level IN ({', '.join(map(repr, LEVELS))})",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_by",
        "end_is_whole": "(ended_poll IS NULL) = (ended_by IS NULL)",
    },
    partition_by=("is_open",),
)

BROKER_INCIDENTS = Table(
    schema="gold",
    name="broker_incidents",
    comment="One row for each stretch in which some ISR lacked a broker (reassignments left out); gaps under 60 s are part of it.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        Column("broker_id", "int", "The broker.", nullable=False),
        RACK,
        POLL,
        *BEGAN,
        *_ends("no ISR lacked it any more"),
        Column("partitions", "bigint", "Partitions whose ISR lacked it.", nullable=False),
        Column("first_out_by", "timestamp", "The first of them had lost it by this.", nullable=False),
        Column("last_out_by", "timestamp", "The last of them had lost it by this.", nullable=False),
        Column(
            "causes",
            "array<string>",
            "Causes of its departures, sorted; empty until the first is decided.",
            nullable=False,
        ),
        Column(
            "lowest_level",
            "string",
            "The worst level that a partition reached while it lacked the broker.",
            nullable=False,
        ),
        UPDATED_AT,
        _is_open("ended_poll IS NULL"),
    ),
    key=("id",),
    constraints={"level_known": f"lowest_level IN ({', '.join(map(repr, LEVELS))})"},
    partition_by=("is_open",),
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
        Column("prev_leader", "int", "Leader before; -1 none.", nullable=False),
        Column("leader", "int", "Leader afterwards; -1 none.", nullable=False),
        Column("prev_leader_epoch", "int", "Leader epoch before; null before Metadata v9."),
        Column("leader_epoch", "int", "Leader epoch afterwards; null before Metadata v9."),
        Column("replicas", "array<int>", "Assigned brokers afterwards, in order: the first is the preferred leader."),
        Column("prev_isr", "array<int>", "ISR before, a sorted set."),
        Column("isr", "array<int>", "ISR afterwards, a sorted set."),
        POLL,
        *BEGAN,
        Column(
            "changes_min",
            "int",
            "Changes of the leader between the two polls, to and from none included: at least.",
            nullable=False,
        ),
        Column("changes_max", "int", "At most; null where epochs cannot be trusted."),
        Column("hidden", "int", "Of them not seen by any poll; null where that is not known exactly."),
        Column(
            "epoch_semantics",
            "string",
            "exact (but for a reassignment that began and ended, or was cancelled, between the two polls: that adds one) | upper_bound | unreliable.",
            nullable=False,
        ),
        Column(
            "reason",
            "string",
            "Inferred: preferred | failover | reassignment | recovery (from none) | offline (to none) | unknown.",
            nullable=False,
        ),
        Column(
            "unclean",
            "string",
            "none | suspected | proven; null where it cannot be told.",
        ),
        Column(
            "last_known_leader",
            "boolean",
            "The new leader is the last one that was known, kept with the ELR, elected unclean whatever the configuration says "
            "(inferred); null without the enrichment elr.",
        ),
        Column("leaderless_ms_min", "bigint", "Without a leader before this change: at least, ms."),
        Column("leaderless_ms_max", "bigint", "At most, ms; null where it is not known."),
        UPDATED_AT,
    ),
    key=("id",),
    constraints={
        "semantics_known": "epoch_semantics IN ('exact', 'upper_bound', 'unreliable')",
        "reason_known": "reason IN ('preferred', 'failover', 'reassignment', 'recovery', 'offline', 'unknown')",
        "unclean_known": "unclean IS NULL OR unclean IN ('none', 'suspected', 'proven')",
        "bounds_in_order": "changes_max IS NULL OR changes_min <= changes_max",
    },
    cluster_by=("cluster_id", "began_by"),
)

LEADER_BALANCE = Table(
    schema="gold",
    name="leader_balance",
    comment="What each broker leads, over time: a row only when it changes. Topics that the filter leaves out are not counted.",
    columns=(
        *CLUSTER_COLUMNS,
        Column("broker_id", "int", "The broker.", nullable=False),
        POLL,
        Column("at", "timestamp", "When that poll was answered: it is so from then on.", nullable=False),
        Column("leaders", "bigint", "Partitions that it leads.", nullable=False),
        Column("preferred", "bigint", "Partitions whose preferred leader it is.", nullable=False),
        Column("led_elsewhere", "bigint", "Of these, partitions that another broker leads, or none.", nullable=False),
        Column("imbalance", "double", "led_elsewhere / preferred; null where it is preferred nowhere."),
        Column("superseded_poll", "string", "First accepted poll with other numbers; null while current."),
        Column("superseded_at", "timestamp", "When that poll was answered; null while current."),
        Column("is_current", "boolean", "superseded_at IS NULL.", nullable=False, generated_as="superseded_at IS NULL"),
    ),
    key=("cluster_id", "broker_id", "poll"),
    partition_by=("is_current",),
)

PROGRESS = Table(
    schema="gold",
    name="progress",
    comment="How far each job has come with silver. Written last in a run; everything else is redone up to it.",
    columns=(
        Column("job", "string", "The job.", nullable=False),
        *CLUSTER_COLUMNS,
        Column("done_poll", "string", "What silver has up to this poll is done.", nullable=False),
        Column("done_at", "timestamp", "When it was answered.", nullable=False),
    ),
    key=("job", "cluster_id"),
    cluster_by=("job", "cluster_id"),
)

ISR_TABLES = (ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS)
LEADER_TABLES = (LEADER_CHANGES, LEADER_BALANCE)
TABLES = (*ISR_TABLES, *LEADER_TABLES, PROGRESS)

_TIMELINE = (
    """
SELECT 'broker_listed' AS what, cluster_id, cluster, CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, broker_id,
  CAST(NULL AS STRING) AS before, concat(host, ':', port) AS after, CAST(NULL AS STRING) AS inferred,
  prev_sent_at AS began_after, first_seen_at AS began_by
FROM {silver.broker_snapshots} WHERE prev_host IS NULL""",
    """
SELECT 'broker_gone', cluster_id, cluster, NULL, NULL, broker_id, concat(host, ':', port), NULL, NULL,
  last_seen_sent_at, superseded_at
FROM {silver.broker_snapshots} WHERE ended_as IS NOT NULL""",
    """
SELECT concat('isr_', change), cluster_id, cluster, topic, partition, broker_id,
  concat('{', array_join(prev_isr, ','), '}'), concat('{', array_join(isr, ','), '}'), cause, began_after, began_by
FROM {gold.isr_changes}""",
    """
SELECT 'leader_changed', cluster_id, cluster, topic, partition, leader, CAST(prev_leader AS STRING), CAST(leader AS STRING),
  concat_ws(', ', reason, CASE WHEN unclean <> 'none' THEN concat('unclean ', unclean) END), began_after, began_by
FROM {gold.leader_changes} WHERE leader <> prev_leader""",
    """
SELECT 'reassignment_began', cluster_id, cluster, topic, partition, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL, prev_sent_at, first_seen_at
FROM {silver.reassignments} WHERE prev_adding_replicas IS NULL""",
    """
SELECT 'reassignment_ended', cluster_id, cluster, topic, partition, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL, NULL,
  last_seen_sent_at, superseded_at
FROM {silver.reassignments} WHERE ended_as IS NOT NULL""",
    """
SELECT 'topic_appeared', cluster_id, cluster, topic, NULL, NULL, NULL, topic_id, NULL,
  prev_sent_at, first_seen_at
FROM {silver.topic_snapshots} WHERE prev_error_code IS NULL""",
    """
SELECT 'topic_ended', cluster_id, cluster, topic, NULL, NULL, topic_id, NULL, ended_as,
  last_seen_sent_at, superseded_at
FROM {silver.topic_snapshots} WHERE ended_as IS NOT NULL""",
)

INCIDENT_TIMELINE = View(
    schema="gold",
    name="incident_timeline",
    comment="Brokers, ISRs, leaders, reassignments and topics: what happened, in one order. Began after began_after and by began_by; what is inferred stands in a column of its own.",
    query="\nUNION ALL".join(_TIMELINE).strip(),
)

VIEWS = (INCIDENT_TIMELINE,)
