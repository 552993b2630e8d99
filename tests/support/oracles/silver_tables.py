"""The tables of silver that the oracle makes: keys, columns of a state, and kinds of answers."""

from tests.support.histories import GROUP_STATE
from tests.support.transaction_lives import TRANSACTION_STATE

STATES = {
    "topic_snapshots": ("topic_id", "error_code", "is_internal", "partition_count"),
    "partition_snapshots": (
        "topic_id",
        "error_code",
        "leader",
        "leader_epoch",
        "replicas",
        "isr",
        "offline_replicas",
    ),
    "broker_snapshots": ("host", "port", "rack"),
    "cluster_snapshots": (
        "metadata_version_level",
        "elr_version_level",
        "metadata_version_highest",
        "kind",
        "not_meaningful",
    ),
    "topic_configs": ("min_insync_replicas", "unclean_leader_election_enable"),
    "reassignments": ("adding_replicas", "removing_replicas"),
    "quorum": (
        *("controller_id", "quorum_epoch", "voters"),
        *("observers", "voters_behind", "observers_behind"),
    ),
    "partition_elr": ("elr", "last_known_elr"),
    "fenced_brokers": ("host", "port", "rack"),
    "group_snapshots": tuple(GROUP_STATE),
    "open_transactions": TRANSACTION_STATE,
    "log_dirs": ("error_code", "total_bytes", "is_online"),
    "history_sources": ("source",),
}
KEYS = {
    "topic_snapshots": ("topic",),
    "partition_snapshots": ("topic", "partition"),
    "broker_snapshots": ("broker_id",),
    "cluster_snapshots": (),
    "topic_configs": ("topic",),
    "reassignments": ("topic", "partition"),
    "quorum": (),
    "partition_elr": ("topic", "partition"),
    "fenced_brokers": ("broker_id",),
    "group_snapshots": ("group_id",),
    "open_transactions": ("opened_by", "is_hanging"),
    "log_dirs": ("broker_id", "log_dir"),
    "history_sources": (),
}
KINDS = {
    "configs": "topic_configs",
    "reassignments": "reassignments",
    "quorum": "quorum",
    "elr": "partition_elr",
    "fenced": "fenced_brokers",
    "groups": "group_snapshots",
    "transactions": "open_transactions",
    "log_dirs": "log_dirs",
}
