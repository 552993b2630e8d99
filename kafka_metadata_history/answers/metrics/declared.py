"""The metrics of Kafka's state: each one's name, labels and meaning, and when it is absent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

PREFIX: Final = "kafka_history_"
GAUGE, COUNTER = "gauge", "counter"
BROKERS_OPTION, LAG_OPTION = "brokers", "group_lag"
"""Options without which the metrics by broker, and those by group, are absent."""
MOST_GROUPS: Final = 1_000
"""So many groups have a series, those with the largest lags."""
AVAILABILITY_DAYS: Final = 7
RECENT_HOURS: Final = 24


@dataclass(frozen=True)
class Metric:
    """A metric. `says`: its meaning, with its unit. `labels`: those beside `cluster`, in order.
    `absent`: when it is, though the cluster is observed. `option`: without which it is.
    """

    name: str
    says: str
    labels: tuple[str, ...] = ()
    absent: str = "never"
    kind: str = GAUGE
    option: str | None = None

    @property
    def full_name(self) -> str:
        """As Prometheus has it."""
        return f"{PREFIX}{self.name}"


class Sample(NamedTuple):
    """One value. `labels`: values of the metric's labels, in order."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


_OF_INCIDENTS: Final = "if the cluster's incidents are not made"
_OF_GROUPS: Final = (
    "as open_incidents, or if nothing tells of groups (`groupLog`, or `enrich: groups`)"
)
_OF_QUORUM: Final = "if nobody tells the quorum (`enrich: quorum`, or the controllers' log)"
_OF_EVENTS: Final = (
    "as open_incidents, or if old rows of gold are dropped (`retention.gold`): the sum would fall, "
    "which Prometheus takes for a restart"
)
_BY_LEVEL: Final = (
    "offline, under_replicated: where leaders, or ISRs, mean nothing or are not known"
)
_OF_AVAILABILITY: Final = "if nobody observed a partition in that time, or its bound is not known"

RECORD_AGE: Final = Metric(
    "record_age_seconds",
    "Seconds since the last good observation of the cluster; +Inf if there was none.",
)
PARTITIONS: Final = Metric("partitions", "Partitions of the cluster.")
LEVEL_MIN: Final = Metric(
    "partitions_by_level_min",
    "Partitions, at least: offline (no leader), under_min_isr, at_min_isr, one_in_sync (one "
    "replica of several is in sync: one failure from offline), under_replicated. One partition may "
    "be at several levels.",
    ("level",),
    _BY_LEVEL,
)
LEVEL_MAX: Final = Metric(
    "partitions_by_level_max",
    "Partitions, at most: more than the least where min ISR, or an ISR, is not known.",
    ("level",),
    _BY_LEVEL,
)
BROKERS: Final = Metric("brokers", "Brokers that are listed, and not fenced.")
FENCED: Final = Metric(
    "fenced_brokers",
    "Brokers that are fenced.",
    absent="if nobody tells them (`enrich: fenced`, or the controllers' log)",
)
STALE: Final = Metric(
    "stale_brokers", "Brokers that answer clients from metadata that is older than the others'."
)
FAILED_DIRS: Final = Metric(
    "failed_log_dirs",
    "Log directories of brokers that have failed.",
    absent="if brokers were not asked within a day (`enrich: log_dirs`)",
)
CONTROLLERS: Final = Metric(
    "active_controllers", "1 if there is an active controller, else 0.", absent=_OF_QUORUM
)
CONTROLLER_ID: Final = Metric(
    "active_controller_id",
    "The id of the active controller; -1 if there is none.",
    absent=_OF_QUORUM,
)
VOTERS: Final = Metric("quorum_voters", "Controllers that vote.", absent=_OF_QUORUM)
VOTERS_BEHIND: Final = Metric(
    "quorum_voters_behind",
    "Voters that were not caught up when the quorum was asked last.",
    absent="if the quorum was not asked within a day (`enrich: quorum`)",
)
OBSERVERS_BEHIND: Final = Metric(
    "quorum_observers_behind",
    "Observers, brokers mostly, that were not caught up then: clients see old metadata of theirs.",
    absent=VOTERS_BEHIND.absent,
)
OPEN: Final = Metric(
    "open_incidents",
    "Incidents, and findings beside them, that last; 0 of a severity that none has.",
    ("severity",),
    _OF_INCIDENTS,
)
OPEN_BY_CAUSE: Final = Metric(
    "open_incidents_by_cause",
    "The same by kind and first cause.",
    ("kind", "cause", "severity"),
    "of what none is",
)
OPENED_RECENTLY: Final = Metric(
    "recent_opened_incidents",
    f"Incidents, and findings beside them, that opened within {RECENT_HOURS} hours, by the "
    "severity that they opened with.",
    ("severity",),
    _OF_INCIDENTS,
)
STUCK: Final = Metric("stuck_groups", "Groups whose rebalance does not end.", absent=_OF_GROUPS)
LOOPS: Final = Metric(
    "crash_loops",
    "Groups of which a client joins and leaves again and again (`thresholds.crashLoop`).",
    absent=_OF_GROUPS,
)
_OF_TRANSACTIONS: Final = "if the transaction coordinators' log is not read (`transactionLog`)"
STUCK_TRANSACTIONS: Final = Metric(
    "stuck_transactions",
    "Transactions that hold up readers of committed records, and that nobody ends: overdue beyond "
    "their time-out, or decided and without markers.",
    absent=_OF_TRANSACTIONS,
)
OLDEST_STUCK: Final = Metric(
    "oldest_stuck_transaction_seconds",
    "Seconds that the oldest of them has been open, as of the newest good observation.",
    absent="as stuck_transactions, or if none is stuck",
)
OPENED: Final = Metric(
    "incidents_opened",
    "Incidents, and findings beside them, that opened, since history began.",
    ("kind",),
    _OF_EVENTS,
    COUNTER,
)
ENDED: Final = Metric(
    "incidents_ended",
    "Those that ended, since history began.",
    ("kind",),
    _OF_EVENTS,
    COUNTER,
)
AVAILABLE_MIN: Final = Metric(
    "metadata_availability_ratio_min",
    f"The part of observed seconds of partitions, of {AVAILABILITY_DAYS} days in UTC with today, "
    "in which metadata had them available, at least. kind: reads | writes.",
    ("kind",),
    _OF_AVAILABILITY,
)
AVAILABLE_MAX: Final = Metric(
    "metadata_availability_ratio_max", "The same, at most.", ("kind",), _OF_AVAILABILITY
)
BROKER_LISTED: Final = Metric(
    "broker_listed",
    "1 if the broker is listed and not fenced, else 0.",
    ("broker",),
    option=BROKERS_OPTION,
)
BROKER_STALE: Final = Metric(
    "broker_stale",
    "1 if it answers clients from older metadata, else 0.",
    ("broker",),
    option=BROKERS_OPTION,
)
BROKER_LEADS: Final = Metric(
    "broker_leader_partitions", "Partitions that it leads.", ("broker",), option=BROKERS_OPTION
)
BROKER_REPLICAS: Final = Metric(
    "broker_replicas", "Partitions of which it has a replica.", ("broker",), option=BROKERS_OPTION
)
BROKER_OUT: Final = Metric(
    "broker_out_of_sync_replicas",
    "Replicas of the broker that are not in the ISR, without those that a reassignment adds.",
    ("broker",),
    option=BROKERS_OPTION,
)
BROKER_GROUPS: Final = Metric(
    "broker_coordinated_groups",
    "Groups that it coordinates.",
    ("broker",),
    "if the coordinators' log is not read (`groupLog`)",
    option=BROKERS_OPTION,
)
USABLE: Final = Metric(
    "broker_log_dir_usable_bytes",
    "Usable bytes of the volume of a log directory.",
    ("broker", "log_dir"),
    "if its broker did not answer on the newest day (UTC), or as broker_log_dir_volume_bytes",
    option=BROKERS_OPTION,
)
VOLUME: Final = Metric(
    "broker_log_dir_volume_bytes",
    "Bytes of the volume of a log directory.",
    ("broker", "log_dir"),
    "of a directory that has failed, before Kafka 3.3, or as failed_log_dirs",
    option=BROKERS_OPTION,
)
BROKER_FAILED_DIRS: Final = Metric(
    "broker_failed_log_dirs",
    "Log directories of the broker that have failed.",
    ("broker",),
    "as failed_log_dirs",
    option=BROKERS_OPTION,
)
LAG: Final = Metric(
    "group_lag_records",
    f"Records that the group is behind, at most. Of the {MOST_GROUPS:,} largest lags of all "
    "clusters.",
    ("group",),
    "if the group's lag is not known, or offsets were not answered for three of their beats",
    option=LAG_OPTION,
)
LAG_LEFT_OUT: Final = Metric(
    "group_lag_left_out",
    f"Groups with a lag that is known, and that is not among the {MOST_GROUPS:,} largest.",
    absent="as group_lag_records",
    option=LAG_OPTION,
)

METRICS: Final = (
    RECORD_AGE,
    PARTITIONS,
    LEVEL_MIN,
    LEVEL_MAX,
    BROKERS,
    FENCED,
    STALE,
    FAILED_DIRS,
    CONTROLLERS,
    CONTROLLER_ID,
    VOTERS,
    VOTERS_BEHIND,
    OBSERVERS_BEHIND,
    OPEN,
    OPEN_BY_CAUSE,
    OPENED_RECENTLY,
    STUCK,
    LOOPS,
    STUCK_TRANSACTIONS,
    OLDEST_STUCK,
    OPENED,
    ENDED,
    AVAILABLE_MIN,
    AVAILABLE_MAX,
    BROKER_LISTED,
    BROKER_STALE,
    BROKER_LEADS,
    BROKER_REPLICAS,
    BROKER_OUT,
    BROKER_GROUPS,
    USABLE,
    VOLUME,
    BROKER_FAILED_DIRS,
    LAG,
    LAG_LEFT_OUT,
)
"""All of them, in the order in which they are exported."""


def exported_names() -> set[str]:
    """Return the name of each series: a counter's ends with _total."""
    return {
        f"{each.full_name}_total" if each.kind == COUNTER else each.full_name for each in METRICS
    }
