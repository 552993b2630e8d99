"""The maker of a history: it plans a round of news, folds it, commits its tables side by side and notes it as done."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.common import commit
from jobs.common.cli import Job
from jobs.common.commit import Commit
from jobs.common.config import Config
from jobs.common.live import LiveRows, in_parts, parts_of, replaced
from jobs.common.rounds import Rounds, State, Step, states_of
from jobs.common.stage import frame_of
from jobs.rules.takes import NOTED_AFTER
from schemas.in_spark import ensure_lake
from schemas.table import Table

log = logging.getLogger("kafka_metadata_history.rounds")

LOOK_EVERY_S = 1.0
"""How often a job that runs alone looks for what is new."""


class Maker(ABC):
    """Makes histories in rounds. When it starts, it finishes those that an earlier run has planned.

    `by`: the column by whose hash live rows of its tables are cut into parts.
    """

    by: ClassVar[str]
    noted_after: ClassVar[timedelta] = NOTED_AFTER
    """News that say nothing are noted once they have waited for so long."""

    def __init__(self, spark: SparkSession, config: Config, histories: Sequence[str]) -> None:
        self._spark, self._lake, self._config = spark, config.lake, config
        self._replacing = commit.can_replace(spark)
        self._writers = ThreadPoolExecutor(4, "commits")
        self._live = LiveRows(spark, config.lake)
        self._rounds = Rounds(spark, config.lake, histories)
        self._states: dict[tuple[str, str], State]
        """By history and alias."""
        self._began_at = time.monotonic()
        for step in self._rounds.to_finish:
            log.info("round %d was planned and not done: it is made again", step.round)
            self._states = states_of(spark, self._lake, step.round)
            self._finish(step, LiveRows(spark, self._lake, step.round))
        self._states = states_of(spark, self._lake)

    @abstractmethod
    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there was anything to write."""

    @abstractmethod
    def _finish(self, step: Step, live: LiveRows) -> None:
        """Fold and commit again what an earlier run has planned and not done. `live`: of before the round."""

    def catch_up(self, *, whole: bool = False) -> None:
        """Make rounds until nothing is new. `whole`: news that say nothing are noted too."""
        while self._timed_round(datetime.now(UTC)):
            pass
        if whole:
            self._timed_round(datetime.now(UTC) + self.noted_after)

    def _timed_round(self, now: datetime) -> bool:
        self._began_at = time.monotonic()
        return self.round(now)

    def _write(
        self,
        step: Step,
        made: Mapping[Table, pa.Table],
        live: LiveRows,
        states: dict[tuple[str, str], State],
        others: Collection[Commit] = (),
        *,
        of: str,
    ) -> None:
        """Commit changed rows of tables, and `others`, side by side, and say that the round is done.

        Each changed row takes the place of the live row with its key, or is appended. `states`: after the round. `of`:
        the clusters of the round, for the log line.
        """
        commits, kept = list(others), []
        for table, changed in made.items():
            if table.live is None:
                commits.append(Commit(table, frame_of(self._spark, changed)))
                continue
            parts = set(parts_of(changed[self.by]).to_pylist())
            rows = replaced(table, live.of([table], parts)[table], changed, self.by)
            commits.append(Commit(table, frame_of(self._spark, rows), in_parts(parts)))
            kept.append((table, parts, rows))
        written = [
            self._writers.submit(each.write, self._lake, step.round, replacing=self._replacing) for each in commits
        ]
        wait(written)  # If one fails, the round is made again: its commits must not meet these.
        for each in written:
            each.result()  # Raises what the first of them raised that failed.
        self._rounds.done(step, states.values())
        self._states = states
        for table, parts, rows in kept:
            live.put(table, parts, rows)
        # Nobody has counted the rows of other commits: they never were on the driver.
        more = f", and those of {len(others)} large table(s)" if others else ""
        count, seconds = sum(map(len, made.values())), time.monotonic() - self._began_at
        log.info("round %d: %s; %d row(s)%s in %.1f s", step.round, of, count, more, seconds)


def job_of(maker: Callable[[SparkSession, Config], Maker]) -> Job:
    """A job that makes histories alone: until nothing is new, or on and on."""

    def run(spark: SparkSession, config: Config, once: bool) -> None:
        ensure_lake(spark, config.lake)
        history = maker(spark, config)
        history.catch_up(whole=once)
        while not once:
            time.sleep(LOOK_EVERY_S)
            history.catch_up()

    return run
