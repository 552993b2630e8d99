"""Gold: what happened. Events and episodes, by the rules of jobs/rules/; what is inferred is called
so.

Times are bounds: `*_after` is when the last poll without it was sent, `*_before` when the first
poll with it was answered. Of what the controllers' log tells both are the time of the record.
"""

from schemas.silver import CLUSTER_COLUMNS, PARTITION, TOPIC, TOPIC_ID
from schemas.table import PART, Column, Table, View, part_column

ID = Column("id", "string", "Hash of the row's key and its opening poll.", nullable=False)
POLL = (
    Column(
        "poll",
        "string",
        "First accepted poll, or record of the controllers' log, that showed it.",
        nullable=False,
    ),
    Column(
        "source",
        "string",
        "Source that showed it: polls | log (the controllers' log).",
        nullable=False,
    ),
)
BEGAN = (
    Column(
        "began_after",
        "timestamp",
        "It began after this; null where no poll came before the first that showed it.",
    ),
    Column("began_before", "timestamp", "It had begun by this.", nullable=False),
)
UPDATED_AT = Column("updated_at", "timestamp", "When the row was last written.", nullable=False)
RACK = Column(
    "rack",
    "string",
    "Its rack, as listed by that poll or the one before; null when it has none or was not listed.",
)

LEVELS = ("under_replicated", "at_min_isr", "under_min_isr", "offline")
"""From the mildest to the worst."""


def _ends(what: str) -> tuple[Column, ...]:
    return (
        Column(
            "ended_poll", "string", f"First accepted poll in which {what}; null while it lasts."
        ),
        Column("ended_after", "timestamp", "It ended after this; null while it lasts."),
        Column("ended_before", "timestamp", "It had ended by this; null while it lasts."),
        Column("duration_ms_min", "bigint", "It lasted at least this, ms; null while it lasts."),
        Column(
            "duration_ms_max",
            "bigint",
            "It lasted at most this, ms; null while it lasts, or where its begin has no bound.",
        ),
    )


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
        Column(
            "change",
            "string",
            "left | initially_out (a replica that was out of the ISR when the partition was first "
            "seen) | rejoined | joined (a replica that a reassignment had added).",
            nullable=False,
        ),
        Column("leader", "int", "Leader afterwards; -1 none."),
        Column("prev_leader", "int", "Leader before; null when the partition was not seen before."),
        Column("isr", "array<int>", "ISR afterwards, a sorted set."),
        Column("prev_isr", "array<int>", "ISR before, a sorted set."),
        Column("replicas", "array<int>", "Assigned brokers afterwards, in order."),
        *POLL,
        *BEGAN,
        Column(
            "cause",
            "string",
            "Inferred, of brokers that left: broker_down | log_dir_failed (a log directory: the "
            "broker stayed listed while its replica was offline) | reassignment | leader_stalled | "
            "lagging. Null until cause_due_at.",
        ),
        Column(
            "signs",
            "array<string>",
            "State of the broker in the polls until cause_due_at, from which the cause follows: "
            "gone (not listed) | offline | failed (it lost a leadership as only a failed broker "
            "does) | back (in the ISR) | together (others left ISRs of the same leader at the same "
            "moment). Null of those that came.",
        ),
        Column(
            "cause_due_at", "timestamp", "End of the look-ahead after which the cause is decided."
        ),
        Column(
            "is_flapping",
            "boolean",
            "Of those that left: it left this ISR thresholds.flaps times or more within "
            "thresholds.flapWindow, this time included.",
        ),
        *_ends("it was back, was no replica any more, or the partition was gone"),
        Column(
            "end_reason",
            "string",
            "rejoined | removed (no replica any more) | unknown (its ISR means nothing any more) | "
            "or as the partition ended; null while it is out.",
        ),
        UPDATED_AT,
        _is_live(
            "while the broker is out, its cause is not decided, or it counts for flapping or an "
            "incident"
        ),
        part_column(),
    ),
    key=("id",),
    constraints={
        "change_known": "change IN ('left', 'initially_out', 'rejoined', 'joined')",
        "cause_known": "cause IS NULL OR (change IN ('left', 'initially_out') "
        "AND cause IN ('broker_down', 'log_dir_failed', 'reassignment', 'leader_stalled', "
        "'lagging'))",
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
        Column(
            "level",
            "string",
            "under_replicated | at_min_isr (size of the ISR = effective min ISR, as always if "
            "there are no more replicas) | under_min_isr (has a leader) | offline (no leader).",
            nullable=False,
        ),
        *POLL,
        *BEGAN,
        *_ends("it was not at this level any more"),
        Column(
            "end_reason",
            "string",
            "Null: it recovered. unknown: its min ISR is not known, or its ISR means nothing, any "
            "more. Else as the partition ended: recreated | unauthorized | gone | not_polled.",
        ),
        Column(
            "brokers_out",
            "array<int>",
            "Replicas that were out of the ISR at any time of it, sorted.",
            nullable=False,
        ),
        Column(
            "smallest_isr",
            "int",
            "Smallest size of the ISR in it; null where the ISR means nothing.",
        ),
        Column(
            "min_isr",
            "int",
            "Effective min ISR, the largest in it; null where it is not known (no enrichment).",
        ),
        UPDATED_AT,
        _is_live("while it lasts"),
        part_column(),
    ),
    key=("id",),
    constraints={
        "level_known": f"level IN ({', '.join(map(repr, LEVELS))})",
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
        Column("partitions", "bigint", "Partitions whose ISR lacked it.", nullable=False),
        Column(
            "partitions_out",
            "bigint",
            "Partitions whose ISR lacks it now; 0 once it ended.",
            nullable=False,
        ),
        Column(
            "first_out_before",
            "timestamp",
            "The first of them had lost it by this.",
            nullable=False,
        ),
        Column(
            "last_out_before", "timestamp", "The last of them had lost it by this.", nullable=False
        ),
        Column(
            "causes",
            "array<string>",
            "Causes of its departures, sorted; empty until the first is decided.",
            nullable=False,
        ),
        Column(
            "worst_level",
            "string",
            "The worst level that a partition reached while it lacked the broker: under_replicated "
            "| at_min_isr | under_min_isr | offline.",
            nullable=False,
        ),
        UPDATED_AT,
        _is_live(
            "while it lasts, may still be joined by a departure, or a cause in it is not decided"
        ),
        part_column(),
    ),
    key=("id",),
    constraints={"level_known": f"worst_level IN ({', '.join(map(repr, LEVELS))})"},
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
        Column("broker_id", "int", "The broker.", nullable=False),
        Column("broker", "string", "host:port at which it answered."),
        Column(
            "poll",
            "string",
            "First accepted poll in which it was found to be behind.",
            nullable=False,
        ),
        Column(
            "began_after",
            "timestamp",
            "Its last answer that was not behind was asked for then; null: none was.",
        ),
        Column(
            "began_before",
            "timestamp",
            "Its first answer that was behind came then.",
            nullable=False,
        ),
        *_ends("it was not behind, or could not be reached"),
        Column(
            "end_reason",
            "string",
            "caught_up | unreachable (it may be stale still); null while it lasts.",
        ),
        Column(
            "partitions_behind",
            "int",
            "Partitions that it showed in an earlier state, at most.",
            nullable=False,
        ),
        Column(
            "epochs_behind",
            "bigint",
            (
                "Leader epochs that it was behind, of all partitions together, at most. 0 where "
                "ISRs alone differed."
            ),
            nullable=False,
        ),
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
        Column("prev_leader", "int", "Leader before; -1 none.", nullable=False),
        Column("leader", "int", "Leader afterwards; -1 none.", nullable=False),
        Column("prev_leader_epoch", "int", "Leader epoch before; null before Metadata v9."),
        Column("leader_epoch", "int", "Leader epoch afterwards; null before Metadata v9."),
        Column(
            "replicas",
            "array<int>",
            "Assigned brokers afterwards, in order: the first is the preferred leader.",
        ),
        Column("prev_isr", "array<int>", "ISR before, a sorted set."),
        Column("isr", "array<int>", "ISR afterwards, a sorted set."),
        *POLL,
        *BEGAN,
        Column(
            "changes_min",
            "int",
            "Changes of the leader between the two polls, to and from none included: at least.",
            nullable=False,
        ),
        Column("changes_max", "int", "At most; null where epochs cannot be trusted."),
        Column(
            "changes_hidden",
            "int",
            "Of them not seen by any poll; null where that is not known exactly.",
        ),
        Column(
            "epoch_semantics",
            "string",
            "How sure the counts of changes are: exact (but for a reassignment that began and "
            "ended, or was cancelled, between the two polls: that adds one) | upper_bound | "
            "unreliable.",
            nullable=False,
        ),
        Column(
            "reason",
            "string",
            "Inferred, but where the controllers' log tells, which says so: preferred | failover | "
            "reassignment | recovery (from none) | offline (to none) | isr_shrink (the same "
            "leader, but brokers left the ISR: that raises epochs while metadata.version is below "
            "3.6-IV0 or not known, and in a migration from ZooKeeper) | unknown. offline, recovery "
            "or unknown alone where the ISR means nothing.",
            nullable=False,
        ),
        Column(
            "unclean",
            "string",
            "no | suspected | proven; null where it cannot be told: where the ISR means nothing, "
            "and with ELR where the enrichment elr did not tell the eligible leaders of the state "
            "before, or told one that was down: if it was killed, it is eligible no more.",
        ),
        Column(
            "is_last_known_leader",
            "boolean",
            "The new leader is the last one that was known, kept with the ELR, elected unclean "
            "whatever the configuration says (inferred); null where the enrichment elr did not "
            "tell it of the state before, and where an eligible leader that was down is back.",
        ),
        Column("leaderless_ms_min", "bigint", "Without a leader before this change: at least, ms."),
        Column("leaderless_ms_max", "bigint", "At most, ms; null where it is not known."),
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
        Column(
            "valid_from",
            "timestamp",
            "When that poll was answered: it is so from then on.",
            nullable=False,
        ),
        Column("leads", "bigint", "Partitions that it leads.", nullable=False),
        Column(
            "preferred_for", "bigint", "Partitions whose preferred leader it is.", nullable=False
        ),
        Column(
            "led_elsewhere",
            "bigint",
            "Of these, partitions that another broker leads, or none.",
            nullable=False,
        ),
        Column(
            "imbalance",
            "double",
            "led_elsewhere / preferred_for; null where it is preferred nowhere.",
        ),
        Column(
            "superseded_poll",
            "string",
            "First accepted poll with other numbers; null while current.",
        ),
        Column("valid_to", "timestamp", "When that poll was answered; null while current."),
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
        Column("controller_id", "int", "The active controller afterwards.", nullable=False),
        Column(
            "controller_epoch",
            "int",
            "Its epoch, the leader epoch of the controllers' log.",
            nullable=False,
        ),
        Column("prev_controller_id", "int", "The active one before; null where that is not known."),
        Column("prev_controller_epoch", "int", "Its epoch; null where that is not known."),
        *POLL,
        *BEGAN,
    ),
    key=("id",),
    cluster_by=("cluster_id", "began_before"),
    over=("began_before",),
)

ISR_TABLES = (ISR_CHANGES, ISR_EPISODES, BROKER_INCIDENTS)
LEADER_TABLES = (LEADER_CHANGES, LEADER_BALANCE)
TABLES = (*ISR_TABLES, *LEADER_TABLES, STALE_BROKERS, CONTROLLER_CHANGES)

_OF_CONFIG = "cluster_id, cluster, topic, NULL, group_id, broker_id"
_CONFIGS = """(
  SELECT *, IF(resource_type = 2, resource_name, NULL) AS topic,
    IF(resource_type = 32, resource_name, NULL) AS group_id,
    -- Of all brokers the name is empty.
    IF(resource_type = 4, try_cast(resource_name AS INT), NULL) AS broker_id,
    concat(CASE WHEN resource_type = 4 AND resource_name = '' THEN 'all brokers: '
      WHEN resource_type = 16 THEN concat('client metrics ', resource_name, ': ') ELSE '' END,
      name) AS setting
  FROM {silver.configs}
)"""

_TIMELINE = (
    # The first one, without which there is no view, is of a gold table: where it is, there is a
    # schema for the view.
    """
SELECT concat('isr_', change) AS what, cluster_id, cluster, topic, partition,
  CAST(NULL AS STRING) AS group_id, broker_id,
  concat('{', array_join(prev_isr, ','), '}') AS before,
  concat('{', array_join(isr, ','), '}') AS after, cause AS inferred,
  began_after, began_before
FROM {gold.isr_changes}""",
    """
SELECT 'broker_listed', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL,
  concat(host, ':', port), NULL, prev_sent_at, valid_from
FROM {silver.broker_snapshots} WHERE prev_host IS NULL""",
    """
SELECT 'broker_gone', cluster_id, cluster, NULL, NULL, NULL, broker_id, concat(host, ':', port),
  NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.broker_snapshots} WHERE end_reason IS NOT NULL""",
    """
SELECT 'broker_stale', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL,
  concat(partitions_behind, ' partitions, ', epochs_behind, ' leader epochs behind'), NULL,
  began_after, began_before
FROM {gold.stale_brokers}""",
    """
SELECT 'broker_stale_no_more', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, end_reason,
  NULL, ended_after, ended_before
FROM {gold.stale_brokers} WHERE ended_before IS NOT NULL""",
    """
SELECT 'broker_registered', cluster_id, cluster, NULL, NULL, NULL, broker_id,
  concat('broker epoch ', prev_broker_epoch),
  concat_ws(', ', concat('broker epoch ', broker_epoch), IF(is_fenced, 'fenced', NULL),
    IF(in_controlled_shutdown, 'in controlled shutdown', NULL)),
  NULL, prev_sent_at, valid_from
FROM {silver.broker_registrations}
WHERE prev_broker_epoch IS NULL OR prev_broker_epoch <> broker_epoch""",
    """
SELECT IF(is_fenced, 'broker_fenced', 'broker_unfenced'), cluster_id, cluster, NULL, NULL, NULL,
  broker_id, IF(prev_in_controlled_shutdown, 'in controlled shutdown', NULL), NULL, NULL,
  prev_sent_at, valid_from
FROM {silver.broker_registrations} WHERE prev_is_fenced <> is_fenced""",
    """
SELECT 'broker_controlled_shutdown', cluster_id, cluster, NULL, NULL, NULL, broker_id, NULL, NULL,
  NULL, prev_sent_at, valid_from
FROM {silver.broker_registrations}
WHERE in_controlled_shutdown AND NOT prev_in_controlled_shutdown""",
    """
SELECT 'broker_unregistered', cluster_id, cluster, NULL, NULL, NULL, broker_id,
  concat('broker epoch ', broker_epoch), NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.broker_registrations} WHERE end_reason IS NOT NULL""",
    """
SELECT 'controller_elected', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(prev_controller_id, ', epoch ', prev_controller_epoch),
  concat(controller_id, ', epoch ', controller_epoch), NULL, began_after, began_before
FROM {gold.controller_changes}""",
    f"""
SELECT IF(prev_value IS NULL, 'config_set', 'config_changed'), {_OF_CONFIG},
  concat(setting, '=', prev_value), coalesce(concat(setting, '=', value), setting), NULL,
  prev_sent_at, valid_from
FROM {_CONFIGS}""",  # noqa: S608 - names of our own
    f"""
SELECT 'config_removed', {_OF_CONFIG}, coalesce(concat(setting, '=', value), setting), NULL, NULL,
  last_seen_sent_at, valid_to
FROM {_CONFIGS} WHERE end_reason IS NOT NULL""",  # noqa: S608
    """
SELECT 'feature_level_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(name, '=', prev_level), concat(name, '=', level), NULL, prev_sent_at, valid_from
FROM {silver.features}""",
    """
SELECT 'feature_level_changed', cluster_id, cluster, NULL, NULL, NULL, NULL,
  concat(name, '=', level), NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.features} WHERE end_reason IS NOT NULL""",
    """
SELECT 'leader_changed', cluster_id, cluster, topic, partition, NULL, leader,
  CAST(prev_leader AS STRING), CAST(leader AS STRING),
  concat_ws(', ', reason, CASE WHEN unclean <> 'no' THEN concat('unclean ', unclean) END),
  began_after, began_before
FROM {gold.leader_changes} WHERE leader <> prev_leader""",
    """
SELECT 'reassignment_began', cluster_id, cluster, topic, partition, NULL, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'),
  NULL, prev_sent_at, valid_from
FROM {silver.reassignments} WHERE prev_adding_replicas IS NULL""",
    """
SELECT 'reassignment_ended', cluster_id, cluster, topic, partition, NULL, NULL,
  concat('+[', array_join(adding_replicas, ','), '] -[', array_join(removing_replicas, ','), ']'),
  NULL, NULL, last_seen_sent_at, valid_to
FROM {silver.reassignments} WHERE end_reason IS NOT NULL""",
    """
SELECT 'topic_appeared', cluster_id, cluster, topic, NULL, NULL, NULL, NULL, topic_id, NULL,
  prev_sent_at, valid_from
FROM {silver.topic_snapshots} WHERE prev_error_code IS NULL""",
    """
SELECT 'topic_ended', cluster_id, cluster, topic, NULL, NULL, NULL, topic_id, NULL, end_reason,
  last_seen_sent_at, valid_to
FROM {silver.topic_snapshots} WHERE end_reason IS NOT NULL""",
    """
SELECT 'rebalance_began', cluster_id, cluster, NULL, NULL, group_id, coordinator,
  concat_ws(', ', concat('generation ', prev_generation),
    concat(prev_members, IF(prev_members = 1, ' member', ' members'))),
  NULL, array_join(reasons, ', '),
  coalesce(narrowed_after, began_after), began_before
FROM {gold.rebalances}""",
    """
SELECT 'rebalance_ended', cluster_id, cluster, NULL, NULL, group_id, coordinator, NULL,
  concat_ws(', ', end_reason, concat('generation ', generation),
    concat(members, IF(members = 1, ' member', ' members'))),
  array_join(reasons, ', '), ended_after, ended_before
FROM {gold.rebalances} WHERE ended_before IS NOT NULL""",
    """
SELECT 'coordinator_moved', cluster_id, cluster, '__consumer_offsets', log_partition, group_id,
  broker_id, CAST(prev_broker_id AS STRING), CAST(broker_id AS STRING), NULL, began_after,
  began_before
FROM {gold.group_events} WHERE event = 'coordinator_moved'""",
    """
SELECT concat('group_', event), cluster_id, cluster, NULL, NULL, group_id, NULL,
  coalesce(prev_member_id, prev_group_type),
  coalesce(member_id, detail, group_type), NULL, began_after, began_before
FROM {gold.group_events} WHERE event <> 'coordinator_moved'""",
    """
SELECT kind, cluster_id, cluster, NULL, NULL, group_id, NULL, NULL,
  concat_ws(', ', concat(rebalances, ' rebalances'), client_id, client_host), NULL, NULL,
  began_before
FROM {gold.rebalance_storms}""",
)

INCIDENT_TIMELINE = View(
    schema="gold",
    name="incident_timeline",
    comment=(
        "Brokers, controllers, ISRs, leaders, reassignments, topics, configurations, features, "
        "coordinators and groups: what happened, in one order. Each began between began_after and "
        "began_before; what is inferred has a column of its own."
    ),
    parts=_TIMELINE,
    meanings=(
        (
            "what",
            (
                "Kind of event: isr_left, leader_changed, broker_gone, rebalance_began, "
                "coordinator_moved, ... The controllers' log alone tells broker_registered, "
                "broker_fenced, broker_unfenced, broker_controlled_shutdown, broker_unregistered, "
                "controller_elected, config_set, config_changed, config_removed, "
                "feature_level_changed."
            ),
        ),
        (
            "topic",
            (
                "Its topic; null of brokers, controllers and features, and of groups but for a "
                "move of their coordinator."
            ),
        ),
        ("partition", "Its partition; null of all that is no event of a partition."),
        ("group_id", "Its group; null of all that is no event of a group."),
        (
            "broker_id",
            (
                "The broker, the leader afterwards, or the coordinator; null of topics, "
                "reassignments, controllers and features."
            ),
        ),
        (
            "before",
            (
                "State before, as text: the ISR, the leader, the address, name and value of a "
                "configuration, ...; null where there was none. A configuration's value that is "
                "not kept is left out."
            ),
        ),
        ("after", "State afterwards, as text; null where there is none."),
        (
            "inferred",
            (
                "Cause, reason or end that is inferred; null where nothing is. Of a leader's "
                "change that the controllers' log tells, the reason follows from the record."
            ),
        ),
        ("began_after", "It began after this; null where nothing is known from before."),
        ("began_before", "It had begun by this."),
    ),
)

VIEWS = (INCIDENT_TIMELINE,)
