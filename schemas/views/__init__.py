"""The views, but for those of one table, which lie beside it. The SQL of each is the file of its
name; `{schema.name}` in it is a table or another view.
"""

from pathlib import Path

from metadata_source.kafka_constants import TRANSACTIONS_TOPIC
from schemas.silver import (
    BROKER_SNAPSHOTS,
    INTERVAL_ENDS,
    PARTITION_SNAPSHOTS,
    TOPIC_SNAPSHOTS,
)
from schemas.table import PART, Table, View, meanings
from schemas.transactions import TRANSACTIONS


def _view(full_name: str, comment: str, meanings: tuple[tuple[str, str], ...] = ()) -> View:
    schema, name = full_name.split(".")
    return View(schema, name, comment, (_sql(name),), meanings)


def _sql(name: str) -> str:
    text = (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")
    return text.replace("termination(t.opened_by)", _termination("t.opened_by"))


def _termination(transactional_id: str) -> str:
    """The SQL expression for the command that aborts the open transaction of an id, by the
    expression for the id; null of one that was cut, so that it is not known, and of one with a
    quote, which would end the quotes around it.
    """
    tool = "kafka-transactions.sh --bootstrap-server HOST:PORT forceTerminateTransaction"
    return (
        f"CASE WHEN instr({transactional_id}, '…') = 0 AND instr({transactional_id}, chr(39)) = 0 "
        f"THEN concat('{tool} --transactionalId ', chr(39), {transactional_id}, chr(39)) END"
    )


def _now(snapshots: Table, what: str, last_seen_at: str = "p.last_seen_at") -> View:
    ends = {*INTERVAL_ENDS, PART} - {"last_seen_at"}
    columns = ",\n  ".join(
        f"coalesce(s.last_seen_at, {last_seen_at}) AS last_seen_at"
        if name == "last_seen_at"
        else f"s.{name}"
        for name in snapshots.column_names
        if name not in ends
    )
    return View(
        schema="silver",
        name=snapshots.name.replace("_snapshots", "s_now"),
        comment=f"{what} as of the latest accepted poll of each cluster.",
        parts=(
            f"""SELECT
  {columns}
FROM {{{snapshots.full_name}}} s JOIN {{internal.clusters}} p USING (cluster)
WHERE s.is_current""",  # noqa: S608 - names of our own
        ),
        meanings=meanings(
            "last_seen_at -- When the last accepted poll that showed it was answered."
        ),
    )


_AS_TOLD = (
    "CASE WHEN p.told_by = 'log' THEN p.done_at WHEN array_contains(p.missing, s.topic) THEN "
    "p.before_seen_at ELSE p.last_seen_at END"
)

REACH = _view(
    "silver.reach",
    "From when to when the history of each cluster reaches. Rows that were over before "
    "silver_from, or gold_from, are not there, or not all of them: nobody polled yet, or retention "
    "has dropped them.",
    meanings("""
        silver_from -- From when on silver is whole.
        gold_from -- From when on gold is whole.
        until -- Up to when polls became history.
    """),
)
OBSERVED = _view(
    "silver.observed",
    "Up to when each history of each cluster was observed, and when it was not. docs/queries.md "
    "says how queries count with it.",
    meanings("""
        history -- isr_shrink | leader_churn (ISRs, leaders: by polls, or by the controllers' log
            while it tells of topics) | polls (what polls alone tell: brokers that answer or are
            listed, states of groups) | rebalance_history (rebalances that polls tell) | group_log
            (rebalances, commits: the coordinators' log) | group_lag | cluster_log (what the
            controllers' log alone tells).
        until -- The last observation that the history has taken. Of the coordinators' log: when its
            newest rows were read. Null where that is not known.
        gaps -- When nobody looked; none overlap. The one before the first poll has no gap_start,
            the one after `until` no gap_end. The others are gaps between polls (silver.poll_gaps);
            of ISRs and leaders only those in which the controllers' log did not tell. Null where
            none is known.
    """),
)
BROKER_RACKS = _view(
    "silver.broker_racks",
    "Racks of brokers over time, by whoever told them. A broker that is down keeps the rack that "
    "it had last.",
    meanings("""
        rack -- broker.rack; null where none is set, or the answer could not say.
        began_after -- It had another one, or was not known, until after this; null where nothing is
            known from before.
        valid_from -- It had this one by then.
        valid_to -- It had another one by then; null: it has this one still.
    """),
)
OF_SILVER = (
    REACH,
    OBSERVED,
    BROKER_RACKS,
    _now(BROKER_SNAPSHOTS, "Brokers"),
    _now(TOPIC_SNAPSHOTS, "Topics", _AS_TOLD),
    _now(PARTITION_SNAPSHOTS, "Partitions", _AS_TOLD),
)

GROUP_COORDINATORS = _view(
    "gold.group_coordinators",
    "The coordinator of each group at each time: from valid_from to valid_to (null: now).",
    meanings("""
        log_partition -- Partition of __consumer_offsets that the group is kept in.
        broker_id -- Its coordinator: the leader of that partition; -1 when there is none.
        prev_sent_at -- It became the coordinator after this; null where nothing is known from
            before.
        valid_from -- It had become the coordinator by this.
        valid_to -- Another one had become the coordinator by this; null: it still is.
    """),
)
GROUP_EVENTS = _view(
    "gold.group_events",
    "Events of groups other than rebalances, moves of their coordinators among them.",
    meanings("""
        event -- created | deleted (an empty group that another protocol takes over is deleted and
            created: its committed offsets stay) | converted | static_restart | records_lost (some
            records of the group's partition were gone before they could be read, or cannot be
            read) | undecoded (a record of it could not be decoded) | coordinator_moved.
        broker_id -- Of coordinator_moved: the coordinator afterwards; -1 none. Null of other
            events.
        prev_broker_id -- Of coordinator_moved: the coordinator before; -1 none. Null of other
            events.
    """),
)
REBALANCES = _view(
    "gold.rebalances",
    "Rebalances of groups: who, why, how long, what moved, and who coordinated them.",
    meanings("""
        narrowed_after -- It began after this, where polls give a closer bound than began_after;
            else null.
        narrowed_before -- It had begun by this, where polls give a closer bound than began_before;
            else null.
        partitions_unassigned -- Partitions of subscribed topics that no member had afterwards; null
            where a subscription, a topic's name or its number of partitions is not known.
        coordinator -- Broker that coordinated the group when the rebalance began; null where that
            is not known.
        followed_coordinator_move -- Whether the coordinator had moved just before; null while that
            is not known.
        coordinator_move_id -- That move in gold.group_events (id); null if there was none.
        partitions_committed -- Partitions that have a cost in gold.rebalance_cost, whose sums
            follow; null where none has.
        pause_ms_min -- Nobody consumed one of them for at least this, ms: of the partition with the
            longest.
        pause_ms_max -- At most this; null until each is committed again.
        lag_before -- By how much the group was behind before it at most, of all partitions where
            that is known.
        lag_peak -- By how much afterwards: the peaks of all partitions together, which need not be
            of one time.
        lag_back_after -- Some partition was further behind than before until after this.
        lag_back_before -- None was by this; null while that is not seen of each.
        reprocessed_min -- At least so many offsets were consumed again, or given back by who set
            them.
        reprocessed_max -- At most; null where that is not known of each partition.
        lost_unread -- Offsets that retention had deleted unread, where the ends of logs were asked
            for.
        lasts_until -- ended_before; the end of the year 9999 while it lasts. By a filter of it an
            engine passes over all else that is known of rebalances.
        is_open -- ended_before IS NULL.
    """),
)
REBALANCE_MEMBERS = _view("gold.rebalance_members", "Who had what before and after each rebalance.")
REBALANCE_TOPICS = _view(
    "gold.rebalance_topics",
    "The topics that each rebalance was about: its members subscribed to them, or had "
    "partitions of them.",
    meanings("""
        rebalance_id -- The rebalance, gold.rebalances.id.
        topic -- A topic that members subscribe to, or had partitions of before it or afterwards.
    """),
)
REBALANCE_RACKS = _view(
    "gold.rebalance_racks",
    "How much members consumed across racks after each rebalance, of those that tell their racks.",
    meanings("""
        rebalance_id -- The rebalance, gold.rebalances.id.
        partitions -- Partitions of members that tell their rack, where that of the leader is known,
            too. A rebalance without such is not there.
        across_racks_min -- The share of these whose replicas are all in other racks than their
            member: at least so much was consumed across racks.
        across_racks_max -- The share of these whose leader is in another rack: at most, as a member
            may fetch from a replica in its own (KIP-392).
    """),
)
REBALANCE_STORMS = _view(
    "gold.rebalance_storms",
    "Stretches in which a group rebalanced, or members joined it, again and again.",
)
REMOVED_COMMITS = _view(
    "gold.removed_commits",
    "Committed offsets that were removed: by the coordinators' log where bronze has it, else "
    "by polls.",
    meanings("""
        source -- log (exact, while bronze keeps that part of the coordinators' log) | polls
            (bounded; one of a group that is gone may have been removed before).
        reason -- group_deleted (beside the tombstone of the group; of polls: the group was listed
            no more, either) | removed (it expired, somebody removed it, or its topic was deleted).
    """),
)
HELD_UP = _view(
    "gold.held_up",
    "Partitions of groups whose lag an open transaction holds up, for consumers with "
    "isolation.level read_committed, and the transactions that may be it: a row each, or one "
    "without where none is known (gold.group_lag, silver.open_transactions).",
    meanings("""
        first_poll -- With cluster and group: the row of gold.group_lag.
        topic -- Topic of the partition.
        partition -- Partition with records that are held up.
        last_stable -- Its last stable offset: the first open transaction begins there.
        records -- Records from there, or from the commit, to the end of its log.
        open_from -- From when on the transaction is known to be open so (valid_from).
        open_to -- Until when it is; null while it is.
        command -- The command that ends it, for an administrator who has asked the producer's
            owner: it aborts one that hangs, and fences the transactional id of others (a command
            of newer versions of Kafka's tools; 4.4.0 has it). If no transaction is known, the
            command that looks for one that hangs. Null if it has ended, is decided, or its id has
            a quote or was cut.
    """),
)
OF_GROUPS = (
    GROUP_COORDINATORS,
    GROUP_EVENTS,
    REBALANCES,
    REBALANCE_MEMBERS,
    REBALANCE_TOPICS,
    REBALANCE_STORMS,
    REMOVED_COMMITS,
    HELD_UP,
)

_OF_TRANSACTION = [f"t.{each.name}" for each in TRANSACTIONS.columns if each.name != PART]
COORDINATED_TRANSACTIONS = View(
    schema="gold",
    name="coordinated_transactions",
    comment=(
        "Rows of gold.transactions with the coordinator of each, as polls know it, and the "
        "command that ends one that is open."
    ),
    parts=(
        f"""SELECT {", ".join(_OF_TRANSACTION)},
  c.leader AS coordinator,
  CASE
    WHEN t.is_live AND t.state = 'Ongoing' THEN {_termination("t.transactional_id")}
  END AS command
FROM {{gold.transactions}} t
LEFT JOIN (
  SELECT cluster_id, cluster, partition, leader_epoch, max(leader) AS leader
  FROM {{silver.partition_snapshots}}
  WHERE topic = '{TRANSACTIONS_TOPIC}' AND leader >= 0
  GROUP BY cluster_id, cluster, partition, leader_epoch
) c
  ON c.cluster_id = t.cluster_id AND c.cluster = t.cluster AND c.partition = t.log_partition
    AND c.leader_epoch = t.leader_epoch""",  # noqa: S608 - names of our own
    ),
    meanings=meanings("""
        coordinator -- The broker that wrote its last record; null where polls did not see it lead
            then.
        command -- The command that aborts the transaction and fences its producer, while it is
            open, for an administrator who has asked the producer's owner (a command of newer
            versions of Kafka's tools; 4.4.0 has it). Null of an id that has a quote, or was cut.
    """),
)

CONTROLLERS = _view(
    "gold.controllers",
    "Active controllers over time: a row for each term, from its election to the next one. By the "
    "controllers' log; where that has no election of an epoch, by polls (enrichment quorum; with "
    "ZooKeeper each poll).",
    meanings("""
        controller_id -- The active controller; -1 when there is none, as polls show.
        controller_epoch -- Its epoch, the leader epoch of the controllers' log; null with
            ZooKeeper.
        ended_after -- The next term began after this, so that this one lasted until then, or had
            failed before; null while it lasts.
        ended_before -- The next term had begun by this; null while it lasts.
        end_reason -- another_elected | elected_again (the same controller, in a later epoch) | lost
            (no controller was active); null while it lasts. Why a controller stopped being the
            active one no source tells.
    """),
)

VOTER_CHANGES = _view(
    "gold.voter_changes",
    "Controllers that were added to the quorum, or removed: a row for each change. The "
    "controllers' log tells each of a dynamic quorum (KIP-853), polls what changed between two "
    "answers (enrichment quorum).",
    meanings("""
        voters -- Controllers that vote afterwards, sorted.
        prev_voters -- Those before, sorted.
    """),
)

RESTARTS = _view(
    "gold.restarts",
    "Brokers that were down one after the other, as in a rolling restart: a row for each broker, "
    "of two brokers or more. The next one was lost within 15 minutes of when the one before it was "
    "lost, or was back. Brokers that were lost at one moment alone are no restart.",
    meanings("""
        restart_id -- The restart: the id of its first row.
        step -- Its place in the order in which brokers were lost, from 1 on.
        id -- The broker's row of gold.broker_incidents.
    """),
)

BAD_SPANS = _view(
    "internal.bad_spans",
    "From when to when a partition could not be read or written. Spans of a partition may overlap.",
    meanings("""
        is_bad_for_reads -- It could not be read, either.
        is_sure -- From began_before to ended_after it surely was so; else it may have been.
        began_after -- It began after this; null: not before began_before.
        began_before -- It had begun by this.
        ended_after -- It ended after this; null while it lasts.
        ended_before -- It had ended by this; null while it lasts.
    """),
)

AVAILABILITY = _view(
    "gold.availability",
    "Metadata availability: of each topic and day (UTC), for how many seconds its partitions were "
    "there, and could not be read or written, added up over partitions. A leader that hangs looks "
    "well until it is fenced.",
    meanings("""
        day -- The day, in UTC.
        partition_s_min -- Seconds in which its partitions were there and observed, at least.
        partition_s_max -- Seconds in which they were there, observed or not, at most.
        not_observed_s -- How much of partition_s_max nobody observed: none of it is in
            partition_s_min, nor counted as bad.
        bad_for_reads_s_min -- Without a leader: at least.
        bad_for_reads_s_max -- At most: between two polls a partition is known to have had its
            leader only if the leader epoch is equal or tells of no hidden change. Null where
            leaders mean nothing.
        bad_for_writes_s_min -- Without a leader, or under the effective min ISR: at least.
        bad_for_writes_s_max -- At most. If the min ISR is not known, this has all time in which a
            replica was out of the ISR. Null where leaders or ISRs mean nothing.
        marked_bad_for_reads_s_min -- How much of bad_for_reads_s_min lies in windows of gold.marks.
        marked_bad_for_reads_s_max -- How much of bad_for_reads_s_max does.
        marked_bad_for_writes_s_min -- How much of bad_for_writes_s_min does.
        marked_bad_for_writes_s_max -- How much of bad_for_writes_s_max does.
    """),
)

INCIDENT_TIMELINE = View(
    schema="gold",
    name="incident_timeline",
    comment=(
        "Brokers, log directories, controllers, ISRs, leaders, reassignments, topics, "
        "configurations, ACLs, quotas, features, coordinators, groups and their lag: what "
        "happened, in one order. Each began between began_after and began_before; what is inferred "
        "has a column of its own."
    ),
    parts=tuple(_sql("incident_timeline").split("\nUNION ALL\n")),
    meanings=meanings("""
        what -- Kind of event: isr_left, leader_changed, broker_gone, rebalance_began,
            coordinator_moved, ... Polls or the controllers' log tell broker_fenced,
            broker_unfenced, broker_unregistered, controller_elected, quorum_voters_changed,
            config_changed; the log counts where both do. The log alone tells broker_registered,
            broker_controlled_shutdown, config_set, config_removed, feature_level_changed,
            acl_added, acl_removed, quota_changed, and settings other than min.insync.replicas and
            unclean.leader.election.enable; polls alone controller_lost, quorum_observers_changed,
            quorum_behind (who is not caught up with the active controller), group_behind and
            group_behind_no_more (by Burrow's status), and of log directories log_dir_failed,
            log_dir_online (after it had failed), replica_move_began and replica_moved (to another
            directory of its broker).
        topic -- Its topic; null of brokers, controllers and features, and of groups but for a move
            of their coordinator.
        partition -- Its partition; null of all that is no event of a partition.
        group_id -- Its group; null of all that is no event of a group.
        broker_id -- The broker, the leader afterwards, or the coordinator; null of topics,
            reassignments, controllers and features.
        before -- State before, as text: the ISR, the leader, the address, name and value of a
            configuration, the number of partitions or of replicas, Burrow's status of a group, the
            log directory of a replica, ...; null where there was none. A configuration's value that
            is not kept is left out.
        after -- State afterwards, as text; null where there is none.
        inferred -- Cause, reason or end that is inferred; null where nothing is. Of a leader's
            change that the controllers' log tells, the reason follows from the record.
        began_after -- It began after this; null where nothing is known from before.
        began_before -- It had begun by this.
    """),
)

VIEWS = (
    *OF_SILVER,
    *OF_GROUPS,
    COORDINATED_TRANSACTIONS,
    *(REBALANCE_RACKS, CONTROLLERS, VOTER_CHANGES, RESTARTS, BAD_SPANS, AVAILABILITY),
    INCIDENT_TIMELINE,
)
"""In an order in which each refers to views before it."""
