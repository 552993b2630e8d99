"""Gold: what happened. Events and episodes, by the rules of jobs/rules/; what is inferred is called so.

Times are bounds: `*_after` is when the last poll without it was sent, `*_by` when the first poll with it was answered.
"""

from schemas.silver import CLUSTER_COLUMNS, GROUP_ID, PARTITION, TOPIC, TOPIC_ID
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

# --- groups ---

GROUP_TYPES = ("classic", "consumer", "share", "streams")
REASONS = (
    "member_joined",
    "member_left",
    "static_member_timed_out",
    "subscription_changed",
    "partitions_changed",
    "assignor_changed",
    "group_emptied",
    "converted",
    "same_members",
)
"""Why a group rebalanced, inferred from what changed; in the order in which they are told."""

_LOG_PARTITION = Column(
    "log_partition", "int", "Partition of __consumer_offsets that the group is kept in; null where it is not known."
)
_GROUP_TYPE = Column("group_type", "string", "classic | consumer | share | streams.", nullable=False)
_SOURCE = Column(
    "source",
    "string",
    "log (what the coordinator wrote: exact) | polls (what changed between two descriptions: bounded, and several in a row are one).",
    nullable=False,
)

REBALANCES = Table(
    schema="gold",
    name="rebalances",
    comment="One row for each rebalance of a group. Static restarts, creation and moves of the coordinator are gold.group_events.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        _GROUP_TYPE,
        Column("prev_group_type", "string", "Type before, where this is the rebalance of a conversion; else null."),
        Column("protocol_type", "string", "Of classic groups: consumer, connect, ...; null of the others."),
        _SOURCE,
        Column("generation", "int", "Generation, or group epoch, that it led to; null for classic groups of polls."),
        Column("prev_generation", "int", "The one before it; null where nothing is known from before."),
        Column(
            "incomplete",
            "int",
            "Generations or epochs between the two that never completed (of polls: that no poll showed completed); null where that is "
            "not known.",
        ),
        _LOG_PARTITION,
        Column("first_offset", "bigint", "Its first record in that partition; null of polls."),
        Column("last_offset", "bigint", "Its last record so far; null of polls."),
        Column("poll", "string", "Of polls: the first accepted poll that showed it; else null."),
        Column(
            "began_after", "timestamp", "It began after this; null where nothing bounds it. Equal to began_by: exact."
        ),
        Column("began_by", "timestamp", "It had begun by this.", nullable=False),
        Column("ended_after", "timestamp", "It ended after this; null while it goes on, or where nothing bounds it."),
        Column("ended_by", "timestamp", "It had ended by this; null while it goes on. Equal to ended_after: exact."),
        Column(
            "ended_leader_epoch",
            "int",
            "Leader epoch of log_partition that wrote the record with which it ended; null while it goes on, where no one record "
            "says that it ended, and of polls.",
        ),
        Column("duration_ms_min", "bigint", "It took at least this, ms; null while it goes on."),
        Column("duration_ms_max", "bigint", "At most, ms; null while it goes on, or where its begin has no bound."),
        Column(
            "ended_as",
            "string",
            "completed | emptied | deleted | converted (before it completed) | unknown (records were lost meanwhile); null while it goes on.",
        ),
        Column("assignor", "string", "Assignor that the group agreed on, or the server's; null where none is told."),
        Column(
            "mode", "string", "eager | cooperative; null where it is not known (other protocol types, share groups)."
        ),
        Column(
            "phases",
            "int",
            "2: partitions were given up in one generation and taken over in the next (more where members changed meanwhile). "
            "Else 1; null of polls.",
        ),
        Column("group_leader", "string", "Member that led a classic group, and assigned; null of the others."),
        Column("members", "int", "Members after it.", nullable=False),
        Column("prev_members", "int", "Members before it; null where nothing is known from before."),
        Column("joined", "int", "Members that are new; null where nothing is known from before."),
        Column("left", "int", "Members that are gone; null where nothing is known from before."),
        Column("restarted", "int", "Static members that came back under another member id; null as joined."),
        Column("kept", "int", "Partitions (streams: active tasks) that stayed with their member."),
        Column("moved", "int", "That another member has than before."),
        Column("added", "int", "That a member has and none had before."),
        Column(
            "lost", "int", "That a member had and none has now: unsubscribed, the topic is gone, or nobody is left."
        ),
        Column(
            "unassigned",
            "int",
            "Of subscribed topics, that no member has; null where it is not known how many there are.",
        ),
        Column(
            "subscribed", "array<string>", "Topics that its members subscribe to, sorted; null where that is not known."
        ),
        Column("stickiness", "double", "kept / (kept + moved + lost); null where nothing was assigned before."),
        Column(
            "reasons", "array<string>", f"Inferred, of: {', '.join(REASONS)}. Null where nothing is known from before."
        ),
        Column(
            "since_previous_ms", "bigint", "From the end of the group's rebalance before to this one's began_by, ms."
        ),
        Column("coordinator", "int", "Broker that led log_partition when it began; null where the polls do not say."),
        Column(
            "followed_move",
            "boolean",
            "The coordinator had moved within the look-ahead (two poll intervals or 15 s) before it began, or while it went on; "
            "context, rarely the reason. Null where the polls do not say.",
        ),
        Column("move_id", "string", "That move in gold.group_events; null where there was none."),
        UPDATED_AT,
        _is_open("ended_by IS NULL"),
    ),
    key=("id",),
    constraints={
        "type_known": f"group_type IN ({', '.join(map(repr, GROUP_TYPES))})",
        "source_known": "source IN ('log', 'polls')",
        "began_in_order": "began_after IS NULL OR began_after <= began_by",
        "end_is_whole": "(ended_by IS NULL) = (ended_as IS NULL)",
        "end_known": "ended_as IS NULL OR ended_as IN ('completed', 'emptied', 'deleted', 'converted', 'unknown')",
        "mode_known": "mode IS NULL OR mode IN ('eager', 'cooperative')",
    },
    partition_by=("is_open",),
)

_PARTITIONS_OF_MEMBER = "array<struct<topic: string, topic_id: string, partitions: array<int>>>"

REBALANCE_MEMBERS = Table(
    schema="gold",
    name="rebalance_members",
    comment="Who had what before and after each rebalance.",
    columns=(
        Column("rebalance_id", "string", "The rebalance, gold.rebalances.id.", nullable=False),
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column(
            "member_id", "string", "Member, under the id that it has afterwards, or had if it left.", nullable=False
        ),
        Column("prev_member_id", "string", "Its id before, where a static member came back under another; else null."),
        Column("instance_id", "string", "group.instance.id of a static member; null of a dynamic one."),
        Column("client_id", "string", "client.id."),
        Column("client_host", "string", "Address that it came from."),
        Column(
            "change",
            "string",
            "stayed | joined | left (before is empty where it came meanwhile, too) | restarted | unknown (nothing is known from before).",
            nullable=False,
        ),
        Column(
            "before",
            _PARTITIONS_OF_MEMBER,
            "What it had; null where nothing is known from before. Of streams groups: active tasks, the topic is the subtopology.",
        ),
        Column(
            "after", _PARTITIONS_OF_MEMBER, "What it has, or is to have while the rebalance goes on; empty if it left."
        ),
        Column("began_by", "timestamp", "As in gold.rebalances.", nullable=False),
        UPDATED_AT,
    ),
    key=("rebalance_id", "member_id"),
    constraints={"change_known": "change IN ('stayed', 'joined', 'left', 'restarted', 'unknown')"},
    cluster_by=("cluster_id", "began_by"),
)

GROUP_EVENTS = Table(
    schema="gold",
    name="group_events",
    comment="What happened to groups that is no rebalance: made, deleted, converted, static restarts, moves of the coordinator, gaps of the log.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column(
            "event",
            "string",
            "created | deleted | converted | static_restart | coordinator_moved | records_lost (some records of the group's partition "
            "were gone before they could be read) | undecoded (a record of it could not be decoded).",
            nullable=False,
        ),
        Column(
            "group_type", "string", "Type afterwards: classic | consumer | share | streams; null where it is not known."
        ),
        Column("prev_group_type", "string", "Type before a conversion; else null."),
        _SOURCE,
        Column("began_after", "timestamp", "It happened after this; null where nothing bounds it."),
        Column("began_by", "timestamp", "It had happened by this. Equal to began_after: exact.", nullable=False),
        _LOG_PARTITION,
        Column("offset", "bigint", "The record, or where the gap begins; null of polls."),
        Column("poll", "string", "Of polls: the first accepted poll that showed it; else null."),
        Column("generation", "int", "Generation or epoch of the group then; null where it is not known."),
        Column("member_id", "string", "Of a static restart: the id afterwards."),
        Column("prev_member_id", "string", "Of a static restart: the id before."),
        Column("instance_id", "string", "Of a static restart: its group.instance.id."),
        Column("client_id", "string", "Of a static restart: its client.id."),
        Column("client_host", "string", "Of a static restart: the address that it came from."),
        Column("broker_id", "int", "Of a move: coordinator afterwards; -1 none."),
        Column("prev_broker_id", "int", "Of a move: coordinator before; -1 none."),
        Column("detail", "string", "One line: how many offsets were lost, why a record was not decoded; else null."),
        UPDATED_AT,
    ),
    key=("id",),
    constraints={
        "event_known": "event IN ('created', 'deleted', 'converted', 'static_restart', 'coordinator_moved', 'records_lost', 'undecoded')",
        "source_known": "source IN ('log', 'polls')",
        "bounds_in_order": "began_after IS NULL OR began_after <= began_by",
    },
    cluster_by=("cluster_id", "began_by"),
)

REBALANCE_STORMS = Table(
    schema="gold",
    name="rebalance_storms",
    comment="Stretches in which a group rebalanced again and again, and members that joined again and again (crash loops); limits in thresholds.",
    columns=(
        ID,
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column(
            "kind",
            "string",
            "storm (thresholds.storm rebalances or more within thresholds.stormWindow) | crash_loop (the same client id and host "
            "joined thresholds.crashLoop times or more within thresholds.crashLoopWindow: made anew, or fenced and back).",
            nullable=False,
        ),
        Column("client_id", "string", "Of a crash loop: its client.id; null of a storm."),
        Column("client_host", "string", "Of a crash loop: the address that it came from; null of a storm."),
        Column("began_by", "timestamp", "When the first of them had begun.", nullable=False),
        Column("last_by", "timestamp", "When the last of them had begun.", nullable=False),
        Column("rebalances", "int", "Rebalances in it; of a crash loop, those with such a join.", nullable=False),
        Column("per_hour", "double", "rebalances / (last_by - began_by), an hour; null where both are the same."),
        UPDATED_AT,
    ),
    key=("id",),
    constraints={"kind_known": "kind IN ('storm', 'crash_loop')"},
    cluster_by=("cluster_id", "last_by"),
)

GROUP_STATES = Table(
    schema="gold",
    name="group_states",
    comment="What the next run must know of each group: its state at the last record that was read, and the rebalance that goes on.",
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column("group_type", "string", "Type; null once the group is gone."),
        _LOG_PARTITION,
        Column("known_since", "timestamp", "From then on its records, or descriptions, are known."),
        Column(
            "state",
            "string",
            "JSON, of the job's own: members, epochs, assignments, the rebalance that goes on.",
            nullable=False,
        ),
        UPDATED_AT,
    ),
    key=("cluster_id", "group_id"),
    cluster_by=("cluster_id", "group_id"),
)

GROUP_PROGRESS = Table(
    schema="gold",
    name="group_progress",
    comment="How far rebalance_history has come with the log and with silver. Written last in a run.",
    columns=(
        *CLUSTER_COLUMNS,
        Column(
            "next_offsets",
            "map<int, bigint>",
            "Partition of __consumer_offsets -> the offset to go on at; null before any.",
        ),
        Column(
            "truncated_at",
            "map<int, timestamp>",
            "Partition -> when its log was last found to have been truncated (reader's clock); null while none was.",
        ),
        Column("log_table", "string", "Delta's id of bronze.group_log as it was read."),
        Column("log_version", "bigint", "Version of it up to which its rows are done."),
        Column("done_poll", "string", "What silver has up to this poll is done; null before any."),
        Column("done_at", "timestamp", "When it was answered."),
    ),
    key=("cluster_id",),
    cluster_by=("cluster_id",),
)

ISR_TABLES = (ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS)
LEADER_TABLES = (LEADER_CHANGES, LEADER_BALANCE)
GROUP_TABLES = (REBALANCES, REBALANCE_MEMBERS, GROUP_EVENTS, REBALANCE_STORMS, GROUP_STATES, GROUP_PROGRESS)
TABLES = (*ISR_TABLES, *LEADER_TABLES, PROGRESS, *GROUP_TABLES)

_TIMELINE = (
    # The first one, without which there is no view, is of a gold table: where it is, there is a schema for the view.
    """
SELECT concat('isr_', change) AS what, cluster_id, cluster, topic, partition, CAST(NULL AS STRING) AS group_id, broker_id,
  concat('{', array_join(prev_isr, ','), '}') AS before, concat('{', array_join(isr, ','), '}') AS after, cause AS inferred,
  began_after, began_by
FROM {gold.isr_changes}""",
    """
SELECT 'broker_listed', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, concat(host, ':', port), NULL,
  prev_sent_at, first_seen_at
FROM {silver.broker_snapshots} WHERE prev_host IS NULL""",
    """
SELECT 'broker_gone', cluster_id, cluster, NULL, NULL, NULL, broker_id, concat(host, ':', port), NULL, NULL,
  last_seen_sent_at, superseded_at
FROM {silver.broker_snapshots} WHERE ended_as IS NOT NULL""",
    """
SELECT 'leader_changed', cluster_id, cluster, topic, partition, NULL, leader, CAST(prev_leader AS STRING), CAST(leader AS STRING),
  concat_ws(', ', reason, CASE WHEN unclean <> 'none' THEN concat('unclean ', unclean) END), began_after, began_by
FROM {gold.leader_changes} WHERE leader <> prev_leader""",
    """
SELECT 'reassignment_began', cluster_id, cluster, topic, partition, NULL, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL, prev_sent_at, first_seen_at
FROM {silver.reassignments} WHERE prev_adding_replicas IS NULL""",
    """
SELECT 'reassignment_ended', cluster_id, cluster, topic, partition, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'), NULL, NULL,
  last_seen_sent_at, superseded_at
FROM {silver.reassignments} WHERE ended_as IS NOT NULL""",
    """
SELECT 'topic_appeared', cluster_id, cluster, topic, NULL, NULL, NULL, NULL, topic_id, NULL,
  prev_sent_at, first_seen_at
FROM {silver.topic_snapshots} WHERE prev_error_code IS NULL""",
    """
SELECT 'topic_ended', cluster_id, cluster, topic, NULL, NULL, NULL, topic_id, NULL, ended_as,
  last_seen_sent_at, superseded_at
FROM {silver.topic_snapshots} WHERE ended_as IS NOT NULL""",
    """
SELECT 'rebalance_began', cluster_id, cluster, NULL, NULL, group_id, coordinator,
  concat_ws(', ', concat('generation ', prev_generation), concat(prev_members, IF(prev_members = 1, ' member', ' members'))), NULL, array_join(reasons, ', '),
  began_after, began_by
FROM {gold.rebalances}""",
    """
SELECT 'rebalance_ended', cluster_id, cluster, NULL, NULL, group_id, coordinator, NULL,
  concat_ws(', ', ended_as, concat('generation ', generation), concat(members, IF(members = 1, ' member', ' members'))), array_join(reasons, ', '),
  ended_after, ended_by
FROM {gold.rebalances} WHERE ended_by IS NOT NULL""",
    """
SELECT 'coordinator_moved', cluster_id, cluster, '__consumer_offsets', log_partition, group_id, broker_id,
  CAST(prev_broker_id AS STRING), CAST(broker_id AS STRING), NULL, began_after, began_by
FROM {gold.group_events} WHERE event = 'coordinator_moved'""",
    """
SELECT concat('group_', event), cluster_id, cluster, NULL, NULL, group_id, NULL, coalesce(prev_member_id, prev_group_type),
  coalesce(member_id, detail, group_type), NULL, began_after, began_by
FROM {gold.group_events} WHERE event <> 'coordinator_moved'""",
    """
SELECT kind, cluster_id, cluster, NULL, NULL, group_id, NULL, NULL,
  concat_ws(', ', concat(rebalances, ' rebalances'), client_id, client_host), NULL, NULL, began_by
FROM {gold.rebalance_storms}""",
)

INCIDENT_TIMELINE = View(
    schema="gold",
    name="incident_timeline",
    comment="Brokers, ISRs, leaders, reassignments, topics, coordinators and groups: what happened, in one order. Began after began_after and by began_by; what is inferred stands in a column of its own.",
    parts=_TIMELINE,
)

GROUP_COORDINATORS = View(
    schema="gold",
    name="group_coordinators",
    comment="The coordinator of each group at each time: the leader of its partition of __consumer_offsets. From first_seen_at to superseded_at (null: now).",
    parts=(
        """
SELECT g.cluster_id, g.cluster, g.group_id, g.log_partition, p.leader AS broker_id, p.prev_sent_at, p.first_seen_at,
  p.superseded_at
FROM {gold.group_states} g JOIN {silver.partition_snapshots} p
  ON p.cluster_id = g.cluster_id AND p.topic = '__consumer_offsets' AND p.partition = g.log_partition""",
    ),
)

VIEWS = (INCIDENT_TIMELINE, GROUP_COORDINATORS)
