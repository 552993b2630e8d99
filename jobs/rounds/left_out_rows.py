"""The lake says which clusters a history leaves out, and why."""

from collections.abc import Collection
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.rounds.commit import delete_rows, replace_rows
from jobs.rounds.left_out import LEFT_OUT_OF
from jobs.rounds.plan import State, States
from schemas.internal import STATE
from schemas.lake import Lake


class LeftOutRows:
    """The rows of internal.states that say which clusters a history leaves out, for `status`."""

    def __init__(self, spark: SparkSession, lake: Lake, history: str) -> None:
        self._spark, self._lake, self._history = spark, lake, f"{LEFT_OUT_OF}{history}"
        self._rows: dict[str, State] = {}

    def read(self, states: States) -> Collection[str]:
        """Take the rows from those of all histories; returns the clusters."""
        self._rows = {of: row for (name, of), row in states.items() if name == self._history}
        return self._rows.keys()

    def add(self, cluster: str, why: str) -> None:
        """Say why a cluster is left out. Nothing is written where the lake says the same."""
        known = self._rows.get(cluster)
        if known is not None and known["why"] == why:
            return
        since = datetime.now(UTC) if known is None else known["done_at"]
        row = {"history": self._history, "cluster": cluster, "round": 0}
        self._replace(self._rows | {cluster: row | {"done_at": since, "why": why, "memory": "{}"}})

    def remove(self, clusters: Collection[str]) -> None:
        """Say that clusters are part of the history again."""
        self._replace({of: row for of, row in self._rows.items() if of not in clusters})

    def _replace(self, rows: dict[str, State]) -> None:
        where = f"history = '{self._history}'"
        if rows:
            replace_rows(self._spark, self._lake, STATE, rows.values(), where)
        elif self._rows:
            delete_rows(self._spark, self._lake, STATE, where)
        self._rows = rows
