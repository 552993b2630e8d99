"""The memory of the jobs from round to round. Not for analysts, and free to change."""

from schemas.silver import CLUSTER_COLUMNS, GROUP_ID
from schemas.table import PART, Column, Table, View, part_column


def retention_of(schema: str) -> str:
    """The history of the row of STATE that says, as `done_at`, from when on tables of a schema (or
    a part of one with a retention of its own) are whole.
    """
    return f"retention of {schema}"


UPKEEP = "upkeep"
"""The row of internal.state that says when upkeep last began, and what each table's newest change
was then.
"""

ROUNDS = Table(
    schema="internal",
    name="rounds",
    comment=(
        "The rounds in which history is made, and what each takes. Commits name theirs in the "
        "userMetadata of DESCRIBE HISTORY."
    ),
    columns=(
        Column(
            "round",
            "bigint",
            "Number of the round, without holes, for all histories of the lake.",
            nullable=False,
        ),
        Column(
            "step",
            "string",
            "started (a job begins to make these histories; an earlier one that makes them "
            "ends) | planned.",
            nullable=False,
        ),
        Column(
            "histories",
            "array<string>",
            "silver, isr_shrink, leader_churn, rebalance_history, rebalance_cost, group_lag.",
            nullable=False,
        ),
        Column("writer", "string", "<start of the job, UTC>-<random>.", nullable=False),
        Column("at", "timestamp", "When the row was written, by the job's clock.", nullable=False),
        Column(
            "takes",
            "string",
            "JSON: what the round takes of each cluster, and the thresholds. Of planned alone.",
        ),
        Column("day", "date", "Day of `at`, UTC.", nullable=False, generated_as="CAST(at AS DATE)"),
    ),
    key=("round",),
    constraints={"step_known": "step IN ('started', 'planned')"},
    partition_by=("day",),
    log_hours=6,
)

STATE = Table(
    schema="internal",
    name="states",
    comment=(
        "How far each history of each cluster had come after a round, and what its fold remembers "
        "beside the live rows. The row of the newest round counts (internal.state); it is written "
        "last, so a planned round is done once it has rows here."
    ),
    columns=(
        Column(
            "history",
            "string",
            "silver | cluster_log (how far the controllers' log became silver) | isr_shrink | "
            "leader_churn | rebalance_history | rebalance_cost | group_lag | validate | "
            "left out of <history> (the cluster, since done_at, as its fold fails).",
            nullable=False,
        ),
        Column("cluster", "string", "Alias of the cluster.", nullable=False),
        Column("cluster_id", "string", "Its id; null until a poll succeeded."),
        Column("round", "bigint", "The round that wrote the row.", nullable=False),
        Column(
            "done_poll", "string", "Nothing up to this poll will change any more; null before any."
        ),
        Column(
            "done_at",
            "timestamp",
            "When it was answered (made non-decreasing). Of rebalance_cost: when the last "
            "rebalance was told that it has taken.",
        ),
        Column(
            "changed_poll",
            "string",
            "The last poll by which rows of the history began or ended; null before any.",
        ),
        Column(
            "deadline",
            "timestamp",
            "Once a poll was answered after this, the history has something to say. Null: not "
            "by time.",
        ),
        Column("last_poll", "string", "Of silver: the last accepted poll."),
        Column(
            "last_seen_at",
            "timestamp",
            "Of silver: when it was answered. Of cluster_log, rebalance_history and "
            "transaction_history: when the last rows of their log in bronze that they have taken "
            "were read.",
        ),
        Column("interval_ms", "bigint", "Of silver: planned interval between polls then, ms."),
        Column(
            "before_seen_at",
            "timestamp",
            "Of silver: when the accepted poll before it was answered.",
        ),
        Column(
            "missing",
            "array<string>",
            "Of silver: topics that the last accepted poll did not show, not yet believed to "
            "be gone.",
        ),
        Column(
            "told_by",
            "string",
            "Of silver: what tells topics and partitions: polls | log (the controllers' log).",
        ),
        Column(
            "parts",
            "int",
            "Of silver: into how many parts the topics of the cluster are cut, by their hash.",
        ),
        Column("refused_polls", "bigint", "Of silver: answers of another cluster since last_poll."),
        Column(
            "stale_polls",
            "bigint",
            "Of silver: polls that wait, an answer older than what was accepted and all after it.",
        ),
        Column(
            "taken",
            "map<string, bigint>",
            "Of silver: stream of polls -> n of its last poll that silver has taken.",
        ),
        Column("waiting", "array<string>", "Of silver: the polls that wait."),
        Column(
            "failed_polls",
            "bigint",
            "Of silver: polls that failed since last_poll, before the first that waits.",
        ),
        Column("error_kinds", "array<string>", "Of silver: how they failed."),
        Column(
            "positions",
            "map<string, array<bigint>>",
            "Of rebalance_history and transaction_history: partition of the coordinators' log -> "
            "era and offset up to which it has taken the log.",
        ),
        Column(
            "read_until",
            "map<string, timestamp>",
            "Of rebalance_cost: alias -> when the last rows of the coordinators' log were read "
            "that it has taken.",
        ),
        Column("why", "string", "Of a cluster that is left out: the error of the fold."),
        Column(
            "memory",
            "string",
            "The fold's own, which no SQL reads; null where the cluster was taken out of the "
            "history.",
        ),
    ),
    key=("history", "cluster", "round"),
    partition_by=("history",),
    log_hours=6,
)

STATE_NOW = View(
    schema="internal",
    name="state",
    comment=(
        "How far each history of each cluster has come, and what its fold remembers beside the "
        "live rows."
    ),
    parts=(
        """SELECT * FROM (
  SELECT * FROM {internal.states}
  QUALIFY row_number() OVER (PARTITION BY history, cluster ORDER BY round DESC) = 1
)
WHERE memory IS NOT NULL""",
    ),
)

CLUSTERS = View(
    schema="internal",
    name="clusters",
    comment="How far the polls of each cluster have become history.",
    parts=("SELECT * FROM {internal.state} WHERE history = 'silver'",),
)

CLUSTER_LOGS = View(
    schema="internal",
    name="cluster_logs",
    comment="How far the controllers' log of each cluster has become history.",
    parts=("SELECT * FROM {internal.state} WHERE history = 'cluster_log'",),
)

GROUP_STATES = Table(
    schema="internal",
    name="group_states",
    comment="Memory of the fold of rebalances, by group.",
    columns=(
        *CLUSTER_COLUMNS,
        GROUP_ID,
        Column("memory", "string", "JSON of the fold's own.", nullable=False),
        part_column(),
    ),
    key=("cluster_id", "group_id"),
    partition_by=(PART,),
    live="true",
    none_without="memory",
)

LAG_STATES = Table(
    schema="internal",
    name="lag_states",
    comment="Memory of the fold of lag, by group.",
    columns=GROUP_STATES.columns,
    key=("cluster_id", "cluster", "group_id"),
    partition_by=(PART,),
    live="true",
    none_without="memory",
    log_hours=24,
)

TABLES = (ROUNDS, STATE, GROUP_STATES, LAG_STATES)
VIEWS = (STATE_NOW, CLUSTERS, CLUSTER_LOGS)
