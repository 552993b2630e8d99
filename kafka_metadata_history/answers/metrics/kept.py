"""Metrics of a lake that changes: its state is read once for each version."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kafka_metadata_history.answers.metrics.exposition import ages, body, observed
from kafka_metadata_history.answers.metrics.read import read_state

if TYPE_CHECKING:
    from datetime import datetime

    from jobs.configuration.config import Config
    from kafka_metadata_history.answers.metrics.exposition import Observed
    from kafka_metadata_history.answers.metrics.state import LakeMetrics
    from kafka_metadata_history.live import LiveLake


class KeptMetrics:
    """The metrics of the newest version of a lake, to several threads."""

    def __init__(
        self, lake: LiveLake, config: Config, *, brokers: bool = False, group_lag: bool = False
    ) -> None:
        """Read nothing yet. `brokers`, `group_lag`: as `read_state` takes them."""
        self._lake, self._config = lake, config
        self._brokers, self._group_lag = brokers, group_lag
        self._one_by_one = Lock()
        self._state: tuple[str, LakeMetrics] | None = None
        self._body: tuple[str, Observed, bytes] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether somebody has asked for them, so that it is worth making them ahead."""
        return self._state is not None

    def text(self, now: datetime) -> bytes:
        """Return the metrics as of `now`, of exposition's CONTENT_TYPE. Ages take milliseconds; all
        else is made again for a new version, and if a cluster begins or ceases to be observed.
        Whoever sees that the lake has changed may call this, so that no scrape waits.

        Raises LakeError and QueryError.
        """
        with self._one_by_one:
            name, state = self._newest()
            of = observed(state, now)
            if self._body is None or self._body[:2] != (name, of):
                self._body = name, of, body(state, of)
            return ages(state, now) + self._body[2]

    def _newest(self) -> tuple[str, LakeMetrics]:
        newest = self._lake.now()
        if self._state is None or self._state[0] != newest.name:
            before = None if self._state is None else self._state[1]
            state = read_state(
                newest.ask,
                self._config,
                brokers=self._brokers,
                group_lag=self._group_lag,
                before=before,
            )
            self._state = newest.name, state
        return self._state
