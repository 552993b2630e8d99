"""The options of a read: texts in, checked and typed out. `table` has each one, docs/options.md
prints it.

Secrets are references (``env:NAME``, ``file:/path``): they travel as such and are resolved where a
connection is made (`metadata_source.references`).
"""

from metadata_source.options.cluster import Cluster
from metadata_source.options.reading import (
    ClusterLogFiles,
    ClusterLogOptions,
    GroupLogOptions,
    Options,
    Polling,
    TopicFilter,
    TransactionLogOptions,
    parse,
    parse_cluster_log,
    parse_group_log,
    parse_transaction_log,
)
from metadata_source.options.table import Mode

__all__ = [
    "Cluster",
    "ClusterLogFiles",
    "ClusterLogOptions",
    "GroupLogOptions",
    "Mode",
    "Options",
    "Polling",
    "TopicFilter",
    "TransactionLogOptions",
    "parse",
    "parse_cluster_log",
    "parse_group_log",
    "parse_transaction_log",
]
