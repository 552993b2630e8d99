"""The histories, as code outside jobs/histories/ knows them: what internal.states calls each, of
which clusters a configuration has it made, what waits for it, and what is kept of it.

Needs no Spark: status, questions and the configuration read it. The classes in jobs/histories/ make
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from schemas.bronze import IS_OF_LOG_DIRS, IS_VISIT, NOT_TAKEN
from schemas.consumption import LAG_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from schemas.table import Table


class Configured(Protocol):
    """As much of a configuration as says which histories are made of which clusters (Config)."""

    @property
    def clusters(self) -> Mapping[str, Any]:
        """All clusters, by alias."""

    @property
    def with_controllers(self) -> Collection[str]:
        """The aliases of clusters whose controllers' log is read."""

    @property
    def group_log(self) -> object:
        """None where the coordinators' log is not read."""

    @property
    def transaction_log(self) -> object:
        """None where the transaction coordinators' log is not read."""

    def asked_for(self, question: str) -> Collection[str]:
        """The aliases of clusters that are asked a question of `enrich`."""


@dataclass(frozen=True)
class Waits:
    """The rows that a history has not taken yet.

    `history`: what `status` calls it; several may share a name. `says`: the meaning of its metric.
    `query`: cluster, and `since`, when the first such row was due, read or told; no row of a
    cluster where nothing waits. Its parameters are those of status_sql.py. `clusters`: the aliases
    of those of which a configuration has such rows read. `takes_polls`: these rows are polls, each
    of which the history takes or ignores.
    """

    history: str
    says: str
    query: str
    clusters: Callable[[Configured], Collection[str]]
    takes_polls: bool = False


@dataclass(frozen=True)
class Declared:
    """A history. `name`: as internal.states has it. `clusters`: the aliases of those of which a
    configuration has it made. `seen_at`: of its rows of internal.states, when what it took last was
    read, as SQL. `kept_apart`: its tables for which `retention` has a key of their own.
    """

    name: str
    clusters: Callable[[Configured], Collection[str]]
    waits: Waits | None = None
    seen_at: str | None = None
    kept_apart: tuple[Table, ...] = ()

    @property
    def names_kept_apart(self) -> str:
        """The names of its tables that have a retention of their own."""
        return " and ".join(table.full_name for table in self.kept_apart)

    @property
    def retention_key(self) -> str:
        """The key of `retention` in the file."""
        first, *others = self.name.split("_")
        return "".join((first, *map(str.capitalize, others)))


def _all(config: Configured) -> Collection[str]:
    return config.clusters


def _with_controllers(config: Configured) -> Collection[str]:
    return config.with_controllers


def _with_group_log(config: Configured) -> Collection[str]:
    return config.clusters if config.group_log is not None else ()


def _with_transaction_log(config: Configured) -> Collection[str]:
    return config.clusters if config.transaction_log is not None else ()


def _asked_for_offsets(config: Configured) -> Collection[str]:
    return config.asked_for("offsets")


def _asked_for_log_dirs(config: Configured) -> Collection[str]:
    return config.asked_for("log_dirs")


def _of_answers(name: str, asked: str) -> str:
    """The query of Waits for a history of answers whose headers satisfy a condition."""
    return f"""
SELECT cluster, min(scheduled_at) AS since
FROM {{bronze.metadata_polls}} LEFT JOIN (
  SELECT cluster, done_poll FROM {{internal.state}} WHERE history = '{name}'
) USING (cluster)
WHERE {asked} AND cluster IN (CLUSTERS) AND scheduled_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE) AND NOT coalesce(poll_id <= done_poll, false)
GROUP BY cluster
"""


def _of_silver(name: str, history: str, says: str) -> Waits:
    """Up to when the history has had silver, where silver has changes that it has not had.

    One that was never made waits since polling began, as the name of the stream says; if no poll
    was taken, since silver was made last.
    """
    began = "array_min(map_keys(c.taken))"
    parts = ((1, 4, "-"), (5, 2, "-"), (7, 2, " "), (10, 2, ":"), (12, 2, ":"), (14, 2, "Z"))
    time = " || ".join(
        f"substring({began}, {at}, {length}) || '{end}'" for at, length, end in parts
    )
    return Waits(
        history,
        says,
        f"""
SELECT c.cluster, coalesce(
  CASE WHEN g.done_poll IS NOT NULL THEN g.done_at END, CAST({time} AS TIMESTAMP), c.done_at
) AS since
FROM {{internal.clusters}} c LEFT JOIN (
  SELECT cluster, done_poll, done_at FROM {{internal.state}} WHERE history = '{name}'
) g ON g.cluster = c.cluster
WHERE c.cluster IN (CLUSTERS) AND c.changed_poll IS NOT NULL
  AND NOT coalesce(g.done_poll >= c.changed_poll, false)
""",
        _all,
    )


SILVER = Declared(
    "silver",
    _all,
    Waits(
        "silver",
        "Since the first poll was due that silver has not had.",
        """
SELECT cluster, min(scheduled_at) AS since
FROM {bronze.metadata_polls} LEFT JOIN (
  SELECT cluster, taken, waiting FROM {internal.clusters}
) USING (cluster)
WHERE record = 'poll' AND cluster IN (CLUSTERS) AND scheduled_at >= CAST(:since AS TIMESTAMP)
  AND day >= CAST(:day AS DATE)
  AND (NOT coalesce(n <= taken[stream], false) OR array_contains(waiting, poll_id))
GROUP BY cluster
""",
        _all,
        takes_polls=True,
    ),
    seen_at="last_seen_at",
)

CLUSTER_LOG = Declared("cluster_log", _with_controllers, seen_at="last_seen_at")
"""How far the controllers' log became silver."""

_GOLD = "gold", "Since when gold has not had changes of silver."

ISR_SHRINK = Declared("isr_shrink", _all, _of_silver("isr_shrink", *_GOLD))

LEADER_CHURN = Declared("leader_churn", _all, _of_silver("leader_churn", *_GOLD))

REBALANCE_HISTORY = Declared(
    "rebalance_history",
    _all,  # polls tell of groups, too
    Waits(
        "group log",
        "Since the first row of the coordinators' log was read that rebalances have not had.",
        f"""
SELECT cluster, min(read_at) AS since
FROM {{bronze.group_log}} LEFT JOIN (
  SELECT cluster, positions FROM {{internal.state}} WHERE history = 'rebalance_history'
) USING (cluster)
-- Each stretch that was read has a row that says so: its records need not be looked at.
WHERE record IN ('read', 'lost', 'truncated') AND {NOT_TAKEN} AND cluster IN (CLUSTERS)
  AND read_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
GROUP BY cluster
""",
        _with_group_log,
    ),
    seen_at="last_seen_at",
)

REBALANCE_COST = Declared(
    "rebalance_cost",
    _with_group_log,
    Waits(
        "rebalance cost",
        "Since the first rebalance was told that has no cost yet.",
        # One row says for all clusters which rebalances were taken.
        """
SELECT cluster, min(updated_at) AS since
FROM {internal.rebalances} LEFT JOIN (
  SELECT done_at AS taken_until FROM {internal.state} WHERE history = 'rebalance_cost'
) ON true
WHERE source = 'log' AND group_type <> 'share' AND ended_before IS NOT NULL
  AND cluster IN (CLUSTERS) AND updated_at >= CAST(:since AS TIMESTAMP)
  AND NOT coalesce(updated_at <= taken_until, false)
GROUP BY cluster
""",
        _with_group_log,
    ),
    seen_at="array_max(map_values(read_until))",
)

GROUP_LAG = Declared(
    "group_lag",
    _asked_for_offsets,
    Waits(
        "lag",
        "Since the first poll was due that told offsets which lag has not had.",
        _of_answers("group_lag", IS_VISIT),
        _asked_for_offsets,
    ),
    kept_apart=LAG_TABLES,
)

TRANSACTION_HISTORY = Declared(
    "transaction_history",
    _with_transaction_log,
    Waits(
        "transaction log",
        "Since the first row of the transactions' log was read that transactions have not had.",
        f"""
SELECT cluster, min(read_at) AS since
FROM {{bronze.transaction_log}} LEFT JOIN (
  SELECT cluster, positions FROM {{internal.state}} WHERE history = 'transaction_history'
) USING (cluster)
WHERE record IN ('read', 'lost', 'truncated') AND {NOT_TAKEN} AND cluster IN (CLUSTERS)
  AND read_at >= CAST(:since AS TIMESTAMP) AND day >= CAST(:day AS DATE)
GROUP BY cluster
""",
        _with_transaction_log,
    ),
    seen_at="last_seen_at",
)

STORAGE = Declared(
    "storage",
    _asked_for_log_dirs,
    Waits(
        "storage",
        "Since the first poll was due that told log directories which storage has not had.",
        _of_answers("storage", IS_OF_LOG_DIRS),
        _asked_for_log_dirs,
    ),
)

INCIDENTS = Declared(
    "incidents",
    _all,
    _of_silver("incidents", "incidents", "Since when incidents have not had changes of silver."),
)

DECLARED = (
    SILVER,
    CLUSTER_LOG,
    ISR_SHRINK,
    LEADER_CHURN,
    REBALANCE_HISTORY,
    REBALANCE_COST,
    GROUP_LAG,
    TRANSACTION_HISTORY,
    STORAGE,
    INCIDENTS,
)
"""All of them, in the order in which `status` shows them."""
