"""Work that is done again and again beside polling."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from threading import Event

from pyspark.sql import SparkSession

from jobs.rounds.plan import OvertakenError
from jobs.run.cli import one_line
from jobs.run.driver import take_pool
from metadata_source.backoff import backoff_s
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.pipeline")

PAUSE_S = 90.0
"""How long history, or upkeep, waits where nothing wakes it: a commit of polls mostly does."""

AGAIN_AFTER_S, AGAIN_WITHIN_S = 1.0, 60.0
"""How long after a failure it is tried again; each further one doubles that, up to the other."""

LOGGED_EVERY_S = 60.0
"""How often the reason is logged why history, or upkeep, fails: then a person has to act."""


class Lasting:
    """Work that is repeated beside polling, whatever goes wrong: history can be made again."""

    def __init__(
        self, name: str, prepare: Callable[[], Callable[[], None]], woken_by: Collection[Table] = ()
    ) -> None:
        self.name, self._prepare, self.woken_by = name, prepare, woken_by
        self.then: Sequence[Event] = ()
        self.wake = Event()
        self.overtaken: OvertakenError | None = None
        self._failed, self._failed_at = 0, 0.0
        self._is_logged, self._logged_at = False, float("-inf")

    def run(self, spark: SparkSession, stop: Event) -> None:
        """Do it until `stop`: when woken, or after PAUSE_S; then wake what takes its results."""
        take_pool(spark, self.name)
        work: Callable[[], None] | None = None
        while True:
            self.wake.clear()
            if stop.is_set():
                return
            try:
                work = work or self._prepare()
                work()
            except OvertakenError as error:
                self.overtaken = error
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, polls are made
                if stop.is_set():
                    return
                work = None  # Made again, from the tables.
                self._log_failure(error)
                stop.wait(backoff_s(AGAIN_AFTER_S, self._failed, AGAIN_WITHIN_S))
            else:
                self._log_recovery()
                for wake in self.then:
                    wake.set()
                self.wake.wait(PAUSE_S)

    def _log_failure(self, error: Exception) -> None:
        now = time.monotonic()
        self._failed_at = self._failed_at if self._failed else now
        self._failed += 1
        if now - self._logged_at <= LOGGED_EVERY_S:
            return
        self._is_logged, self._logged_at = True, now
        if now - self._failed_at < LOGGED_EVERY_S:
            log.warning("%s failed and is tried again: %s", self.name, one_line(error))
        else:
            log.error(
                "%s has failed for %.0f s: %s; correct what the error names, it is tried again. "
                "Polling continues, and bronze keeps what history has not had",
                self.name,
                now - self._failed_at,
                one_line(error),
            )

    def _log_recovery(self) -> None:
        if self._is_logged:
            log.warning("%s works again, after it failed %d time(s)", self.name, self._failed)
        self._failed, self._is_logged = 0, False
