"""The rows of each table, as DuckDB's SQL.

A source has the columns k (number of the cluster), n (poll that showed it first) and m (poll that
ended it, null: it lasts). Values are SQL of its columns. Columns that are not named are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.year_lake.clusters import DAY, INTERVAL_S, RACKS, WEEK
from schemas import bronze, consumption, gold, groups, internal, silver

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.table import Table

BEGAN: Final = "2025-01-01T00:00:00Z"
STREAM: Final = "20250101T000000Z-5eed5eed"
LAG_DAYS: Final = 3
"""Days of which gold.group_lag is kept, and polls between two askings for offsets."""
LAG_EACH: Final = 10
BRONZE_DAYS: Final = 7

SOURCES: Final = (Path(__file__).parent / "sources.sql").read_text(encoding="utf-8").format(
    BEGAN=BEGAN, STREAM=STREAM, DAY=DAY, WEEK=WEEK, SECONDS=INTERVAL_S, LAG_EACH=LAG_EACH,
    LAG_DAYS=LAG_DAYS, BRONZE_DAYS=BRONZE_DAYS,
)  # fmt: skip
"""Makes what rows are made of out of what __main__ puts there: clusters, alike, outages, ..."""


_CLUSTER: Final = {
    "cluster": "printf('cluster-%02d', k)",
    "cluster_id": "printf('id-of-cluster-%02d-----', k)",
}
_INTERVAL: Final = {
    **_CLUSTER, "first_poll": "poll(n)", "valid_from": "seen(n)",
    "interval_ms": f"{INTERVAL_S * 1000}", "prev_poll": "CASE WHEN n > 0 THEN poll(n - 1) END",
    "prev_sent_at": "CASE WHEN n > 0 THEN due(n - 1) END", "last_poll": "poll(m - 1)",
    "last_seen_at": "seen(m - 1)", "last_seen_sent_at": "due(m - 1)", "superseded_poll": "poll(m)",
    "valid_to": "seen(m)",
}  # fmt: skip
_BEGAN: Final = {
    **_CLUSTER, "source": "'polls'", "poll": "poll(n)", "updated_at": "seen(coalesce(m, n) + 1)",
    "began_after": "CASE WHEN n > 0 THEN due(n - 1) END", "began_before": "seen(n)",
}  # fmt: skip
_ENDED: Final = {
    **_BEGAN, "ended_poll": "poll(m)", "ended_after": "due(m - 1)", "ended_before": "seen(m)",
    "duration_ms_min": f"took(n, m) - {INTERVAL_S * 1000}",
    "duration_ms_max": f"took(n, m) + {INTERVAL_S * 1000}",
}  # fmt: skip
_TOPIC: Final = {"topic": "u.topic", "topic_id": "u.topic_id", "partition": "u.partition"}
_ID: Final = "md5(concat_ws('\n', k, u.topic, u.partition, n, {}))"
_RACK: Final = f"'rack-' || broker_id % {RACKS}"
_EXACT: Final = "seen(n) + INTERVAL 5 SECONDS"
"""When a rebalance began that the coordinators' log tells."""
_ENDS: Final = "seen(n) + to_milliseconds(CASE WHEN m = n THEN 8000 ELSE took(n, m) END)"
_OF_GROUP: Final = {
    **_CLUSTER,
    "group_id": "printf('group-%03d', g)",
    "updated_at": "seen(coalesce(m, n) + 1)",
}
_HAS: Final = (
    "[{{'topic': printf('topic-%05d', g), 'topic_id': NULL, "
    "'partitions': [2 * ({0}), 2 * ({0}) + 1]}}]"
)


@dataclass(frozen=True)
class Rows:
    """Rows of one table. `each`: SQL of columns that the source's rows are unnested by, as `u`."""

    table: Table
    source: str
    values: Mapping[str, str]
    each: str | None = None


_REBALANCED: Final = "rebalanced"

ALL: Final = (
    Rows(silver.PARTITION_SNAPSHOTS, "partition_snapshots", {
        **_INTERVAL, **_TOPIC, "error_code": "CASE WHEN leader = -1 THEN 5 ELSE 0 END",
        "leader": "leader", "leader_epoch": "epoch", "replicas": "replicas", "isr": "isr",
        "offline_replicas": "down",
        "prev_error_code": "CASE WHEN prev_leader = -1 THEN 5 WHEN n > 0 THEN 0 END",
        "prev_leader": "prev_leader", "prev_leader_epoch": "prev_epoch",
        "prev_replicas": "CASE WHEN n > 0 THEN replicas END", "prev_isr": "prev_isr",
        "prev_offline_replicas": "prev_down",
    }, "partitions"),
    Rows(gold.LEADER_CHANGES, "leader_changes", {
        **_BEGAN, **_TOPIC, "id": _ID.format("'leader'"), "prev_leader": "prev_leader",
        "leader": "leader", "prev_leader_epoch": "prev_epoch", "leader_epoch": "epoch",
        "replicas": "replicas", "isr": "isr", "prev_isr": "prev_isr", "changes_min": "1",
        "changes_max": "1", "changes_hidden": "0", "epoch_semantics": "'exact'", "reason": "reason",
        "unclean": "'no'", "is_last_known_leader": "false",
        "leaderless_ms_min": "CASE WHEN reason = 'recovery' THEN 30000 ELSE 0 END",
        "leaderless_ms_max": "CASE WHEN reason = 'recovery' THEN 90000 ELSE 30000 END",
    }, "partitions"),
    Rows(gold.ISR_CHANGES, "isr_changes", {
        **_ENDED, **_TOPIC, "id": _ID.format("broker_id, change"), "broker_id": "broker_id",
        "rack": _RACK, "change": "change", "leader": "leader", "prev_leader": "prev_leader",
        "isr": "isr", "prev_isr": "prev_isr", "replicas": "replicas",
        "cause": "CASE WHEN change = 'left' THEN 'broker_down' END",
        "signs": "CASE WHEN change = 'left' THEN ['gone'] END",
        "cause_due_at": "CASE WHEN change = 'left' THEN seen(n + 2) END",
        "is_flapping": "change = 'left' AND false",
        "end_reason": "CASE WHEN change = 'left' THEN 'rejoined' END",
        **{name: f"CASE WHEN change = 'left' THEN {_ENDED[name]} END" for name in (
            "ended_poll", "ended_after", "ended_before", "duration_ms_min", "duration_ms_max")},
    }, "partitions"),
    Rows(gold.ISR_EPISODES, "isr_episodes", {
        **_ENDED, **_TOPIC, "id": _ID.format("level"), "level": "level",
        "brokers_out": "brokers_out", "smallest_isr": "smallest_isr", "min_isr": "min_isr",
    }, "partitions"),
    Rows(gold.LEADER_BALANCE, "balance", {
        **_INTERVAL, "source": "'polls'", "poll": "poll(n)", "broker_id": "broker_id",
        "leads": "leads", "preferred_for": "preferred_for", "led_elsewhere": "led_elsewhere",
        "imbalance": "led_elsewhere / nullif(preferred_for, 0)",
    }),
    Rows(gold.BROKER_INCIDENTS, "outages", {
        **_ENDED, "id": "md5(concat_ws('\n', k, broker_id, n))", "broker_id": "broker_id",
        "rack": _RACK, "partitions": "partitions", "partitions_out": "0",
        "first_out_before": "seen(n)", "last_out_before": "seen(n)", "causes": "['broker_down']",
        "worst_level": "'under_replicated'",
    }),
    Rows(gold.STALE_BROKERS, "stale", {
        **_ENDED, "id": "md5(concat_ws('\n', k, 'stale', broker_id, n))", "broker_id": "broker_id",
        "broker": "printf('broker-%d.cluster-%02d:9092', broker_id, k)",
        "end_reason": "'caught_up'", "partitions_behind": "17", "epochs_behind": "40",
    }),
    Rows(gold.CONTROLLER_CHANGES, "(SELECT k, n, m, broker_id FROM outages WHERE broker_id < 3)", {
        **_BEGAN, "source": "'log'", "id": "md5(concat_ws('\n', k, 'controller', n))",
        "controller_epoch": "n", "controller_id": "3000 + (broker_id + 1) % 3",
        "prev_controller_id": "3000 + broker_id",
    }),
    Rows(silver.BROKER_SNAPSHOTS, "listed", {
        **_INTERVAL, "broker_id": "broker_id",
        "host": "printf('broker-%d.cluster-%02d', broker_id, k)", "port": "9092", "rack": _RACK,
        "end_reason": "CASE WHEN m IS NOT NULL THEN 'gone' END",
    }),
    Rows(silver.BROKER_REGISTRATIONS, "registered", {
        **_INTERVAL, "broker_id": "broker_id", "broker_epoch": "epoch",
        "incarnation_id": "left(md5(concat(k, n)), 22)", "rack": _RACK, "is_fenced": "is_fenced",
        "in_controlled_shutdown": "false", "log_dirs": "[]", "prev_broker_epoch": "prev_epoch",
        "prev_rack": f"CASE WHEN n > 0 THEN {_RACK} END", "prev_is_fenced": "prev_is_fenced",
        "prev_in_controlled_shutdown": "CASE WHEN n > 0 THEN false END",
    }),
    Rows(silver.CLUSTER_SNAPSHOTS, "(SELECT k, 0 AS n, NULL::INT AS m FROM clusters)", {
        **_INTERVAL, "metadata_version_level": "25", "metadata_version_highest": "25",
        "elr_version_level": "0", "kind": "'kafka'", "not_meaningful": "[]",
    }),
    Rows(silver.HISTORY_SOURCES, "(SELECT k, 0 AS n, NULL::INT AS m FROM clusters)", {
        **_INTERVAL, "source": "'polls'",
    }),
    Rows(silver.QUORUM, "(SELECT k, 0 AS n, NULL::INT AS m FROM clusters)", {
        **_INTERVAL, "controller_id": "3000", "quorum_epoch": "1", "voters": "[3000, 3001, 3002]",
    }),
    Rows(silver.TOPIC_SNAPSHOTS, "topics", {
        **_INTERVAL, "topic": "topic", "topic_id": "topic_id", "error_code": "0",
        "is_internal": "starts_with(topic, '__')", "partition_count": "partitions",
        "end_reason": "CASE WHEN m IS NOT NULL THEN 'gone' END",
    }),
    Rows(silver.TOPIC_CONFIGS, "settings", {
        **_INTERVAL, "topic": "topic", "min_insync_replicas": "min_isr",
        "unclean_leader_election_enable": "false",
        "prev_min_insync_replicas": "CASE WHEN n > 0 THEN prev_min_isr END",
        "prev_unclean_leader_election_enable": "CASE WHEN n > 0 THEN false END",
    }),
    Rows(silver.POLL_GAPS, "gaps", {
        **_CLUSTER, "after_poll": "poll(n - 1)", "gap_start": "seen(n - 1)",
        "until_poll": "poll(m)", "gap_end": "seen(m)", "interval_ms": f"{INTERVAL_S * 1000}",
        "failed_polls": "m - n", "stale_polls": "0", "refused_polls": "0",
        "error_kinds": "['timeout']", "reason": "'failed'",
    }),
    Rows(silver.COORDINATORS, "coordinators", {
        **_CLUSTER, "log_partition": "log_partition", "poll": "poll(n)", "source": "'polls'",
        "began_after": _BEGAN["began_after"], "began_before": "seen(n)", "leader": "leader",
        "leader_epoch": "epoch", "prev_leader": "prev_leader", "prev_leader_epoch": "prev_epoch",
        "is_move": "n > 0", "followed_until": "seen(n) + INTERVAL 60 SECONDS",
    }),
    Rows(groups.GROUP_LIVES, "(SELECT k, g, 0 AS n, NULL::INT AS m FROM consumers)", {
        **_OF_GROUP, "source": "'log'", "valid_from": "seen(n)", "log_partition": "g % 50",
        "known_since": "seen(n)",
        "group_type": "CASE WHEN g % 2 = 0 THEN 'classic' ELSE 'consumer' END",
    }),
    Rows(groups.GROUP_EVENTS, "(SELECT k, g, 0 AS n, 0 AS m FROM consumers)", {
        **_OF_GROUP, "id": "md5(concat_ws('\n', k, g, 'created'))", "event": "'created'",
        "source": "'log'", "group_type": "'consumer'", "began_after": "seen(n)",
        "began_before": "seen(n)", "log_partition": "g % 50",
    }),
    Rows(groups.REBALANCES, _REBALANCED, {
        **_OF_GROUP, "id": "id",
        "group_type": "CASE WHEN g % 2 = 0 THEN 'classic' ELSE 'consumer' END",
        "protocol_type": "'consumer'", "source": "'log'", "generation": "generation",
        "prev_generation": "generation - 1", "skipped_generations": "0", "log_partition": "g % 50",
        "first_offset": "10 * n", "last_offset": "10 * n + 4", "began_after": _EXACT,
        "began_before": _EXACT, "ended_after": _ENDS, "ended_before": _ENDS,
        "ended_leader_epoch": "epoch",
        "duration_ms_min": "epoch_ms(ended_before) - epoch_ms(began_before)",
        "end_reason": "CASE WHEN m IS NOT NULL THEN 'completed' END", "assignor": "'range'",
        "mode": "'eager'", "phases": "1", "members": "3", "prev_members": "3",
        "members_joined": "joined", "members_left": "joined", "members_restarted": "0",
        "partitions_kept": "4", "partitions_moved": "2", "partitions_added": "0",
        "partitions_lost": "0", "subscribed": "[printf('topic-%05d', g)]",
        "assigned": "[{'topic': printf('topic-%05d', g), 'topic_id': NULL, 'partitions': 6}]",
        "stickiness": "0.667",
        "reasons": "CASE WHEN joined > 0 THEN ['member_joined'] ELSE ['same_members'] END",
        "since_previous_ms": "took(prev_n, n)",
    }),
    Rows(groups.REBALANCE_MEMBERS, _REBALANCED, {
        **_OF_GROUP, "rebalance_id": "id", "member_id": "printf('member-%d-%d', g, u)",
        "client_id": "'app'", "client_host": "printf('/10.0.%d.%d', g, u)",
        "change": "CASE WHEN u = 0 AND joined > 0 THEN 'joined' ELSE 'stayed' END",
        "before": _HAS.format("u"), "after": _HAS.format("(u + 1) % 3"), "began_before": _EXACT,
    }, "[0, 1, 2]"),
    Rows(groups.REBALANCE_BEGINS, "(SELECT * FROM rebalanced WHERE g % 4 = 0)", {
        **_CLUSTER, "group_id": _OF_GROUP["group_id"], "began_after": "due(n - 1)",
        "began_before": "seen(n)", "ended_before": "seen(m + 1)",
    }),
    Rows(groups.REBALANCE_STORMS, "(SELECT * FROM rebalanced WHERE m > n)", {
        **_OF_GROUP, "id": "md5(concat(id, 'storm'))", "kind": "'storm'", "source": "'log'",
        "began_before": _EXACT, "last_before": _ENDS, "rebalances": "7", "per_hour": "14.0",
    }),
    Rows(consumption.REBALANCE_COST, "(SELECT * FROM rebalanced WHERE m IS NOT NULL)", {
        **_OF_GROUP, "rebalance_id": "id", "topic": "printf('topic-%05d', g)", "partition": "u",
        "began_before": _EXACT, "ended_before": _ENDS, "commit_gap_ms": "15000 + 100 * u",
        "last_commit_at": "seen(n)", "last_committed": "1000 * n",
        "first_commit_at": "seen(n) + INTERVAL 15 SECONDS", "first_committed": "1000 * n + 400",
        "cadence_ms": "5000", "pause_ms_min": "5000", "pause_ms_max": "15000",
        "reprocessed_min": "0", "reprocessed_max": "40", "lost_unread": "0", "lag_before": "100",
        "lag_peak": "1700", "lag_peak_at": "seen(n + 1)", "lag_back_after": "due(n + 1)",
        "lag_back_before": "seen(n + 2)", "committed_before": "1000 * n",
        "close_reason": "'recovered'",
    }, "[0, 1, 2, 3, 4, 5]"),
    Rows(silver.GROUP_SNAPSHOTS, "described", {
        **_INTERVAL, "group_id": _OF_GROUP["group_id"], "group_type": "'classic'",
        "protocol_type": "'consumer'", "state": "state", "assignor": "'range'",
        "prev_state": "prev_state", "prev_group_type": "CASE WHEN n > 0 THEN 'classic' END",
    }),
    Rows(consumption.GROUP_LAG, "lags", {
        **_OF_GROUP, "first_poll": "poll(n)", "valid_from": "seen(n)", "valid_to": "seen(m)",
        "last_seen_at": "seen(m - 1)", "is_simple": "false", "partitions": "6",
        "committed_sum": "6000 * CAST(n AS BIGINT)", "lag_min": "lag", "lag_max": "lag + 60",
        "largest_lag_min": "lag // 6", "largest_lag_max": "lag // 6 + 10",
        "partitions_behind": "CASE WHEN lag > 0 THEN 6 ELSE 0 END", "partitions_beyond": "0",
        "partitions_without_progress": "0", "partitions_unknown": "0",
        "oldest_commit_after": "due(n - 1)", "oldest_commit_before": "seen(n)",
        "burrow_status": "'OK'", "partitions_not_well": "0", "not_well": "[]",
    }),
    Rows(bronze.METADATA_POLLS, "polls", {
        "cluster": _CLUSTER["cluster"], "cluster_id": _CLUSTER["cluster_id"],
        "stream": f"'{STREAM}'", "n": "n", "poll_id": "poll(n)", "record": "record", "kind": "kind",
        "scheduled_at": "due(n)", "sent_at": "due(n)", "received_at": "seen(n)",
        "answered_at": "seen(n)", "asked_at": "due(n)", "outcome": "'ok'",
        "interval_ms": f"{INTERVAL_S * 1000}", "broker_id": "n % 9", "api_version": "13",
        "is_key_frame": "false", "chunk": "0", "day": "CAST(due(n) AS DATE)",
    }),
    Rows(bronze.GROUP_LOG, "(SELECT * FROM polls WHERE record = 'poll' AND n % 2 = 0)", {
        "cluster": _CLUSTER["cluster"], "cluster_id": _CLUSTER["cluster_id"], "record": "'read'",
        "log_partition": "n % 50", "offset": "10 * n", "next_offset": "10 * n + 10",
        "read_at": "seen(n)", "chunk": "0", "day": "CAST(due(n) AS DATE)",
    }),
    Rows(internal.STATE, "histories", {
        **_CLUSTER, "history": "history", "round": "1", "done_poll": "poll(n - 1)",
        "done_at": "seen(n - 1)", "changed_poll": "poll(n - 1)", "last_poll": "poll(n - 1)",
        "last_seen_at": "seen(n - 1)", "interval_ms": f"{INTERVAL_S * 1000}",
        "before_seen_at": "seen(n - 2)", "missing": "[]", "told_by": "'polls'", "parts": "1",
        "refused_polls": "0", "stale_polls": "0", "taken": f"MAP {{'{STREAM}': n - 1}}",
        "waiting": "[]", "failed_polls": "0", "error_kinds": "[]", "memory": "'{}'",
    }),
)  # fmt: skip
"""All that is written. Of bronze the last week, without rows of topics, which no question reads."""
