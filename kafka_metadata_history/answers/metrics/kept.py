"""Metrics of a lake that changes: its state is read once for each version."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kafka_metadata_history.answers.metrics.exposition import exposition
from kafka_metadata_history.answers.metrics.read import read_state

if TYPE_CHECKING:
    from datetime import datetime

    from jobs.configuration.config import Config
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
        self._kept: tuple[str, LakeMetrics] | None = None

    @property
    def is_asked(self) -> bool:
        """Whether somebody has asked for them, so that it is worth reading them ahead."""
        return self._kept is not None

    def read(self) -> LakeMetrics:
        """Return the state of the newest version; it is read unless it was. Whoever sees that the
        lake has changed may call this, so that no scrape waits. Raises LakeError and QueryError.
        """
        with self._one_by_one:
            newest = self._lake.now()
            if self._kept is None or self._kept[0] != newest.name:
                before = None if self._kept is None else self._kept[1]
                state = read_state(
                    newest.ask,
                    self._config,
                    brokers=self._brokers,
                    group_lag=self._group_lag,
                    before=before,
                )
                self._kept = newest.name, state
            return self._kept[1]

    def text(self, now: datetime) -> bytes:
        """Return the metrics as of `now`, of exposition's CONTENT_TYPE. Raises as `read` does."""
        return exposition(self.read(), now)
