"""The names that are measured: what each says, and its aim, if it has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kafka_metadata_history.answers.questions import names


@dataclass(frozen=True)
class Aim:
    """One name: what it says, in which unit, and from where to where it is good. Without `wanted`
    any value is.
    """

    name: str
    unit: str
    relation: Literal["<=", ">=", ""]
    wanted: float | None
    says: str

    def __str__(self) -> str:
        return "" if self.wanted is None else f"{self.relation} {self.wanted:g} {self.unit}".strip()

    def verdict(self, value: float) -> str:
        """Return whether a measured value is as good as wanted, or better."""
        if self.wanted is None:
            return ""
        is_met = value <= self.wanted if self.relation == "<=" else value >= self.wanted
        return "met" if is_met else "MISSED"


_MOST: Final = 1.3
"""What grows may have so many times as much in the last periods as in those before."""
_OF_SIZING: Final = (
    ("java_mb", "MB", "memory of Java"),
    ("python_mb", "MB", "memory of all Python processes"),
    ("cores", "cores", "processor time by wall clock"),
    ("bronze_mb", "MB", "bytes of bronze in a day, before anything is compacted"),
    ("history_mb", "MB", "bytes of silver, gold and internal in a day, as above"),
    ("delay_s", "s", "from the poll that showed a leader change to its commit in gold: median"),
    ("delay_p95_s", "s", "the same: 95 of 100"),
)
SIZES: Final = (3, 50, 300)

AIMS: Final = (
    Aim("quiet_s", "s", "<=", 1,
        "a round in which nothing changed: a cluster of 300 partitions, five polls, warm session"),
    Aim("news_s", "s", "<=", 6,
        "a round with a hundred changes in that cluster: a broker goes, or comes back"),
    Aim("news_busy_s", "s", "<=", 12,
        "such a round beside poller and brokers, with groups, their log and enrichments"),
    Aim("once_cold_s", "s", "<=", 40,
        "`pipeline.py --once` from a cold JVM, a broker having stopped or started before"),
    Aim("freshness_quiet_s", "s", "<=", 6,
        "from the answer that showed the only leader change of a while to its commit in gold: "
        "median"),
    Aim("freshness_p50_s", "s", "<=", 8, "the same under faults: median"),
    Aim("freshness_p90_s", "s", "<=", 14, "the same under faults: nine of ten"),
    Aim("polls_on_time", "", ">=", 0.99,
        "share of polls sent within 0.5 s of their due time, history being made, under faults"),
    Aim("polls_on_time_busy", "", ">=", 0.95,
        "the same beside a process that takes all of one processor"),
    Aim("polls_on_time_offsets", "", ">=", 0.95,
        "the same while the offsets of 100,000 partitions are asked: of polls due meanwhile"),
    Aim("first_poll_s", "s", "<=", 5,
        "from the start of `kafka-metadata-history run` to its first poll"),
    Aim("many_quiet_s", "s", "<=", 3,
        "a round in which nothing changed in 100 clusters x 1,000 partitions"),
    Aim("many_news_s", "s", "<=", 15, "a round with ten changes in each of these clusters"),
    Aim("large_s", "s", "<=", 60,
        "a round with 100,000 changes in one cluster of 1,000,000 partitions: a broker goes, or "
        "comes back"),
    Aim("large_few_s", "s", "<=", 9, "a round with ten changes in that cluster"),
    Aim("large_mb", "MB", "<=", 4_096,
        "memory of driver and workers together, at most, in those rounds"),
    Aim("lag_quiet_s", "s", "<=", 1.5,
        "a round of lag in which none of 50 groups of six partitions has committed"),
    Aim("lag_news_s", "s", "<=", 4, "such a round in which all have"),
    Aim("growth", "x", "<=", 1.2,
        "a round with a hundred changes after 1,000,000 stored changes to one after 10,000"),
    Aim("idle_cores", "cores", "<=", 0.08,
        "processor time by wall clock while nothing happens, polls each 30 s, groups and offsets "
        "asked, nine minutes"),
    Aim("rest_mb", "MB", "<=", 1_500, "memory of all processes then"),
    Aim("idle_all_cores", "cores", "<=", 0.10,
        "the same with all questions of `enrich` at their own beats, and the transactions' log"),
    Aim("rest_all_mb", "MB", "", None, "memory of all processes then"),
    Aim("recorder_cores", "cores", "", None,
        "processor time of the recorder alone, as of idle_cores"),
    Aim("recorder_all_cores", "cores", "", None,
        "that of one beside it which asks all questions, as of idle_all_cores"),
    Aim("decode_ms", "ms", "", None, "an answer of 1,000 x 100 partitions to columns"),
    Aim("decode_half_ms", "ms", "", None, "the same with half of the partitions shrunk"),
    Aim("decode_x", "x", ">=", 15, "kafka-python's time by ours, all in sync, least of all shapes"),
    Aim("decode_half_x", "x", ">=", 3, "the same with half of the partitions shrunk"),
    Aim("decode_aiokafka_x", "x", "", None, "aiokafka's time by ours, version 5, 1,000 x 100"),
    Aim("decode_java_x", "x", "<=", 5, "our time by that of Kafka's classes, warm, 1,000 x 100"),
    Aim("decode_million_s", "s", "<=", 0.5, "an answer of 1,000,000 partitions"),
    Aim("decode_million_x", "x", "<=", 4, "memory that this takes, by the answer's size"),
    Aim("poll_ms", "ms", "", None, "a poll of 1,000 x 100 partitions, socket to tables: median"),
    Aim("poll_list_topics_x", "x", ">=", 10, "confluent-kafka's list_topics by it"),
    Aim("poll_describe_topics_x", "x", "", None, "kafka-python's describe_topics by it"),
    Aim("many_answers_mb", "MB", "", None,
        "the recorder grows by, when 64 clusters of 1,000 x 100 partitions answer at once"),
    Aim("many_answers_unbound_mb", "MB", "", None, "the same without a bound on decoded answers"),
    Aim("groups_s", "s", "<=", 2.5,
        "200 groups are asked, 50 brokers at a round trip of 40 ms: the worst"),
    Aim("offsets_s", "s", "<=", 5, "their offsets are asked, of 100 partitions each: the worst"),
    Aim("group_log_x", "x", ">=", 3,
        "the coordinators' log, one core, to the faster plain loop: least of all shares of groups"),
    Aim("group_log_records", "1/s", "", None, "its records a second then"),
    Aim("group_log_spark_records", "1/s", "", None, "through Spark, the least as well"),
    Aim("group_log_commit_bytes", "B", "", None, "bytes of Parquet an aggregate of commits"),
    Aim("transaction_log_cores", "cores", "<=", 0.1,
        "2,000 transactions a second of 200 ids and 50 partitions each, bytes to rows"),
    Aim("transaction_log_mb", "MB", "<=", 200, "memory that reading a minute of them takes more"),
    Aim("transaction_log_bytes", "B", "", None, "bytes of Parquet of its rows"),
    Aim("transaction_log_5m_cores", "cores", "<=", 0.1, "the same of five minutes, as one batch"),
    Aim("transaction_log_5m_mb", "MB", "<=", 200, "memory that reading these takes more"),
    Aim("transaction_log_5m_bytes", "B", "", None, "bytes of Parquet of their rows"),
    Aim("cluster_log_records", "1/s", ">=", 500_000,
        "PartitionChangeRecords a second of processor time, 20 a batch"),
    Aim("cluster_log_java_records", "1/s", "", None, "DumpLogSegments, of the same segment"),
    Aim("cluster_fold_s", "s", "<=", 2,
        "a cluster of 100,000 partitions loses a broker: the controllers' log to silver"),
    Aim("lag_fold_s", "s", "", None,
        "a visit of 200 groups of 100 partitions, all of which move, is folded"),
    Aim("lag_fold_kb", "kB", "", None, "bytes of Parquet of its rows"),
    Aim("lag_memory_mb", "MB", "", None, "bytes of Parquet that the fold remembers then"),
    Aim("log_dirs_bronze_mb", "MB", "<=", 50,
        "bytes of bronze in a day of 300,000 replicas, whose brokers are asked for them each ten "
        "minutes"),
    Aim("log_dirs_gold_mb", "MB", "", None, "bytes of gold.storage of two hours of such a day"),
    Aim("log_dirs_s", "s", "", None,
        "processor time to find out which of these sizes are kept of an answer"),
    Aim("log_dirs_fold_s", "s", "", None, "the same to fold these into gold.storage"),
    Aim("question_s", "s", "<=", 2, "a day of rebalances, of a year of 1,000,000"),
    *(
        Aim(f"asked_{name}_{how}_s", "s", "<=", most, f"`{name}` of a lake of a year, {says}")
        for name in names()
        for how, most, says in (("cold", 5, "the command"), ("warm", 2, "asked again"))
    ),
    *(
        Aim(f"pages_{name}_{how}_s", "s", "<=", most, f"page `{name}`, a lake of a year, {says}")
        for name in ("fleet", "cluster", "incident", "broker", "topic", "group", "figures")
        for how, most, says in (("cold", 5, "the first"), ("warm", 2, "the second"))
    ),
    Aim("pages_scrape_s", "s", "<=", 0.1, "/metrics of a version that was read before"),
    Aim("pages_mb", "MB", "<=", 500, "memory of `serve`: 100 open pages, five questions at once"),
    *(
        Aim(f"{fleet}_{name}", unit, "<=", wanted, f"{clusters} clusters: {says}")
        for fleet, clusters, late in (("fleet", 300, 0.5), ("fleet_1000", 1_000, 1.0))
        for name, unit, wanted, says in (
            ("late_s", "s", late, "95 of 100 polls are sent so late at most, nobody is sick"),
            ("sick_late_s", "s", late, "the same of good clusters, some being sick"),
            ("changed_late_s", "s", late, "the same after some left and others came"),
            ("mb", "MB", 2_000, "memory of the recorder at most"),
        )
    ),
    *(
        Aim(f"sizing_{clusters}_{name}", unit, "", None, f"{clusters} clusters: {says}")
        for clusters in SIZES
        for name, unit, says in _OF_SIZING
    ),
    Aim("year_counts_x", "x", "<=", _MOST,
        "files, rows and memory of a year: last five periods to the five before"),
    Aim("year_seconds_x", "x", "<=", _MOST, "commits, rounds, upkeep and questions, as above"),
    Aim("day_counts_x", "x", "<=", _MOST, "the same of a day of 2,880 commits: counts"),
    Aim("day_seconds_x", "x", "<=", _MOST, "the same of that day: seconds"),
    Aim("demo_s", "s", "<=", 150, "`make demo`, its set-up done before"),
    Aim("demo_polls_on_time", "", ">=", 0.99, "its polls sent within 0.5 s of their due time"),
    Aim("demo_missed", "", "<=", 0, "its polls that the recorder did not make, or lost"),
    Aim("test_s", "s", "<=", 720, "`make test`"),
)  # fmt: skip
BY_NAME: Final = {aim.name: aim for aim in AIMS}
