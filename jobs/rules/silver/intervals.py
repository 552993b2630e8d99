"""From polls to intervals: slowly changing dimension, type 2. A row is a state of a thing."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from jobs.rules.silver.rows import OfCluster
from jobs.rules.silver.state import Observation, Row
from schemas.table import Table

Key = tuple[Any, ...]


class Intervals:
    """The rows of one interval table of one cluster: those that are `open`, by key, and those that
    a round `changed`, by key and first poll.

    `cluster` holds the columns that say which cluster it is. A key is a tuple of the table's key
    columns between these and first_poll. Rows are never changed, they are replaced.
    """

    def __init__(self, table: Table, cluster: OfCluster, live: Iterable[Mapping[str, Any]]) -> None:
        self._cluster, self._key, names = cluster, table.key[1:-1], table.column_names
        self._prev = [(f"prev_{name}", name) for name in names if f"prev_{name}" in names]
        self.open: dict[Key, Mapping[str, Any]] = {
            tuple(row[name] for name in self._key): row for row in live
        }
        self.changed: dict[tuple[Key, str], Row] = {}

    def show(
        self,
        key: Key,
        said: Row,
        observation: Observation,
        *,
        whole: bool = False,
        nothing: Collection[str] = (),
        is_new: bool = False,
    ) -> None:
        """The thing was there in this state. None in it leaves the value before, unless the answer
        tells it `whole`, or the column is one of `nothing`, which mean nothing. `is_new`: it is
        another state, though no column shows it.
        """
        row = self.open.get(key)
        if row is not None:
            other = {
                name: value
                for name, value in said.items()
                if row[name] != value and (whole or value is not None or name in nothing)
            }
            if not other and not is_new:
                return
            said = said if whole else {name: row[name] for name in said} | other
            self.end(key, None, observation)
        prev = {prev_name: row and row[name] for prev_name, name in self._prev}
        began = {
            **self._cluster,
            **dict(zip(self._key, key, strict=True)),
            **said,
            **prev,
            **observation.began,
        }
        self.open[key] = self.changed[key, observation.poll.id] = began

    def amend(self, key: Key, said: Row) -> None:
        """Give the open state other values, from its begin on."""
        amended = {**self.open[key], **said}
        amended.pop("is_current", None)
        self.open[key] = self.changed[key, amended["first_poll"]] = amended

    def end(self, key: Key, reason: str | None, observation: Observation) -> None:
        """The open state had ended by then. `reason`: why the thing ended; None: it lives on."""
        ended = {**self.open.pop(key), **observation.ended, "end_reason": reason}
        ended.pop("is_current", None)
        self.changed[key, ended["first_poll"]] = ended
