"""The engine of histories: it plans a round, folds it, commits its tables, notes it as done."""

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.configuration.limits import CROSSED
from jobs.rounds import commit
from jobs.rounds.commit import Commit, delete_rows
from jobs.rounds.fold import output_of
from jobs.rounds.history import Context, History, News, Output, Run
from jobs.rounds.left_out import LeftOut
from jobs.rounds.left_out_rows import LeftOutRows
from jobs.rounds.live import LiveRows, in_parts, parts_of, replaced
from jobs.rounds.lost_rounds import LostRound
from jobs.rounds.plan import PlanJson, Rounds, States, Step, states_of, with_rows
from jobs.rounds.stage import FoldError, broken_cluster, frame_of, give_back_memory
from jobs.rules.memory import from_json, to_json
from jobs.rules.takes import NOTED_AFTER
from jobs.run.cli import Job, OfCluster, one_line
from jobs.run.driver import JAVA_ERRORS, java_text
from schemas.imports import IMPORT, not_whole
from schemas.in_spark import ensure_lake
from schemas.lake import LakeError

log = logging.getLogger("kafka_metadata_history.rounds")

_FAILED: tuple[type[Exception], ...] = (FoldError, PySparkException, *JAVA_ERRORS)
"""The errors of a round that may be of one cluster's fold."""

_GONE = ("FILE_NOT_EXIST", "FileNotFoundException")
"""Errors where an older version of a table has to be read whose files VACUUM has taken."""

LOOK_EVERY_S = 1.0
"""How often a job that runs alone looks for what is new."""


class Engine:
    """Makes a history in rounds. It begins with those that an earlier run has left."""

    def __init__(
        self, spark: SparkSession, config: Config, history: History[Any], run: Run | None = None
    ) -> None:
        self._spark, self.lake, self._config, self.history = spark, config.lake, config, history
        self._run = run or Run()
        self._run.makes.update(history.names)
        self._replacing = commit.can_replace(spark)
        self._writers = ThreadPoolExecutor(4, "commits")
        self._live = LiveRows(spark, config.lake)
        self._rounds = Rounds(spark, config.lake, history.names, history.other_states)
        self.left_out = LeftOut()
        self._left_out_rows = LeftOutRows(spark, config.lake, history.names[0])
        self._planning: Future[Step] | None = None
        self._in_round: Collection[str] = frozenset()
        """The clusters that the last round has folded."""
        self._states: States
        """Those whose round is None say more than the last round has written."""
        self._parsed: dict[tuple[str, str], tuple[str, Any]] = {}
        self._began_at = time.monotonic()
        self._noted_at = datetime.now(UTC)
        self._finish_rounds()

    def _finish_rounds(self) -> None:
        """Finish the rounds that an earlier run has planned, and those that tables have lost."""
        for step, lost in self._rounds.lost:
            self._make_again(step, lost)
        broken: dict[str, str] = {}
        for step in self._rounds.to_finish:
            log.info("round %d was planned and not done: it is made again", step.round)
            self._states = states_of(self._spark, self.lake, step.round)
            try:
                self._finish(step, LiveRows(self._spark, self.lake, step.round))
            except _FAILED as error:
                # Of a round of which nothing is in the tables, later ones take what can be folded.
                if (found := broken_cluster(error)) is None or self._rounds.is_begun(step):
                    raise
                broken |= dict([found])
        self._states = states_of(self._spark, self.lake)
        self.left_out.tried = dict.fromkeys(self._left_out_rows.read(self._states), 1)
        for cluster, why in broken.items():
            self._leave_out(cluster, why)
        self._go_back()

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there is more, as far as it is known."""
        context = self.context()
        news: News | None = self.history.due(context, now)
        if news is None:
            return False
        self._in_round = news.clusters
        step = self._plan(to_json(news.plan), now) if news.is_due else None
        output = output_of(self.history, context, news)
        if step is None and not output.rows:
            states = with_rows(self._states, self.history.note(context, news, None))
            is_late = now - self._noted_at > NOTED_AFTER
            if not is_late or all(row["round"] is not None for row in states.values()):
                self._states = states
                return news.is_more is True
        step = step or self._plan(to_json(news.plan), now)
        self._write(step(), context, news, output)
        self._noted_at = now
        return news.is_more is not False

    def _finish(self, step: Step, live: LiveRows) -> None:
        """Make a round that an earlier run has planned. `live`: the live rows before it."""
        if "again" in step.takes:
            self._forget(step)
            return
        if IMPORT in step.takes:
            half = step.takes[IMPORT]
            raise not_whole(self.lake, half["clusters"], half["place"])
        context = self.context(live)
        news = self.history.planned(context, from_json(self.history.plan_type, step.takes))
        self._write(step, context, news, output_of(self.history, context, news))

    def again(self, cluster: str) -> None:
        """Take a cluster out of the history: the next rounds make it again. Raises LakeError."""
        if not any((history, cluster) in self._states for history in self.history.names):
            raise LakeError(
                f"{self.lake} has no history of a cluster {cluster!r}; see the aliases in "
                "internal.state"
            )
        self.history.check_again(self.context(), cluster)
        self._forget(self._rounds.plan({"again": cluster}, datetime.now(UTC)))

    def _forget(self, step: Step) -> None:
        """Take a cluster out of the histories of a step, and say that it is done."""
        cluster = step.takes["again"]
        for table in self.history.written_by(step.histories):
            delete_rows(self._spark, self.lake, table, f"cluster = '{cluster}'")
        keys = [(history, cluster) for history in step.histories]
        gone = {key: {"history": key[0], "cluster": cluster, "round": step.round} for key in keys}
        self._rounds.done(step, (self._states | gone).values())
        self._states = {key: row for key, row in self._states.items() if key not in gone}
        self.history.forget(cluster)
        self._live.forget()

    def context(self, live: LiveRows | None = None) -> Context:
        """The input of the next round. `live`: the live rows before a round that is made again."""
        return Context(
            self._spark,
            self._config,
            live or self._live,
            self._states,
            self._run,
            self.left_out,
            self._parsed,
        )

    def _make_again(self, step: Step, lost: LostRound) -> None:
        """Make a round again that is done, and that tables have lost; or say why it cannot be."""
        tables, why = ", ".join(lost.tables), "later rounds have built on it"
        if lost.is_last:
            log.warning(
                "%s lost round %d, which is done, as in a power cut: it is made again",
                tables,
                step.round,
            )
            try:
                self._states = states_of(self._spark, self.lake, step.round, lost.noted_in - 1)
                self._finish(step, LiveRows(self._spark, self.lake, step.round, are_later=True))
            except Exception as error:
                # History must continue, whatever is lost; of another error the next run may get
                # further.
                if not _is_final(error):
                    raise
                why = one_line(error)
            else:
                return
        todo = (
            "; `--again CLUSTER` computes the history again" if self.history.can_make_again else ""
        )
        log.error(
            "%s lost round %d, which is done, as in a power cut, and it cannot be made again: %s. "
            "Rows of that round are missing there%s",
            *(tables, step.round, why, todo),
        )

    def catch_up(self, *, whole: bool = False) -> None:
        """Make rounds until nothing is new. `whole`: news that say nothing are noted too."""
        # Each is tried once, however long the rounds without it take.
        if self.left_out.take_back():
            self._go_back()
        while self._timed_round(datetime.now(UTC)):
            pass
        if whole:
            self._timed_round(datetime.now(UTC) + NOTED_AFTER)

    def _timed_round(self, now: datetime) -> bool:
        """One round; without a cluster whose fold fails in it, of which nothing is taken then."""
        self._began_at, self._planning, self._in_round = time.monotonic(), None, frozenset()
        try:
            is_more = self.round(now)
        except _FAILED as error:
            if (broken := broken_cluster(error)) is None or broken[0] in self.left_out:
                raise
            if self._is_begun():
                # Large tables are folded while they are committed: the next run makes this round
                # again.
                raise
            self._leave_out(*broken)
            self._go_back()  # The round had looked at what it did not take of others either.
            return True
        if well := self.left_out.succeed(self._in_round):
            self._left_out_rows.remove(well)
            names = ", ".join(sorted(self._rounds.histories))
            log.warning("cluster(s) %s are part of the history of %s again", ", ".join(well), names)
        return is_more

    def _is_begun(self) -> bool:
        """Whether a table has the commit of this round: another plan would meet one on its way."""
        return self._planning is not None and self._rounds.is_begun(self._planning.result())

    def _plan(self, plan: PlanJson, now: datetime) -> Callable[[], Step]:
        """Plan a round while it is folded, since a fold writes nothing; returns what waits for the
        plan.
        """
        self._planning = self._writers.submit(self._rounds.plan, plan, now)
        return self._planning.result

    def _go_back(self) -> None:
        """Look again for what was passed over of clusters that were left out."""
        self._states = with_rows(self._states, self.history.go_back(self.context()))

    def _leave_out(self, cluster: str, why: str) -> None:
        """Leave a cluster out of rounds for a while, and let `status` say so."""
        seconds = self.left_out.put(cluster)
        self._left_out_rows.add(cluster, why)
        until = "" if self.history.needs else ", until it is as old as its retention"
        log.error(
            "cluster %s is left out of the history of %s for %.0f s, since its fold failed: %s. "
            "Bronze keeps what was not taken%s; upgrade the program, or report this line",
            *(cluster, ", ".join(sorted(self._rounds.histories)), seconds, why, until),
        )

    def _write(self, step: Step, context: Context, news: News, output: Output) -> None:
        """Commit what a round has made, its tables side by side, and say that the round is done.

        Each changed row takes the place of the live row with its key, or is appended.
        """
        commits, kept = list(output.commits), []
        for table, changed in output.rows.items():
            if table.live is None:
                commits.append(Commit(table, frame_of(self._spark, changed)))
                continue
            parts = set(parts_of(changed[self.history.by]).to_pylist())
            rows = replaced(table, context.live.of([table], parts)[table], changed, self.history.by)
            commits.append(Commit(table, frame_of(self._spark, rows), in_parts(parts)))
            kept.append((table, parts, rows))
        written = [
            self._writers.submit(each.write, self.lake, step.round, replacing=self._replacing)
            for each in commits
        ]
        wait(written)  # If one fails, the round is made again: its commits must not meet these.
        for each in written:
            each.result()  # Raises what the first of them raised that failed.
        context.run.writes.update(each.table for each in commits)
        states = with_rows(
            self._states, (*output.states, *self.history.note(context, news, output))
        )
        states = {
            key: row | {"round": step.round} if row["round"] is None else row
            for key, row in states.items()
        }
        self._rounds.done(step, states.values(), [each.table for each in commits])
        self._states = states
        for table, parts, rows in kept:
            context.live.put(table, parts, rows)
        self.history.done(self.context(), news)
        if output.is_large:
            # Python's side of a frame is a cycle (py4j): Java keeps the rows of it until Python
            # collects.
            give_back_memory()
        # Nobody has counted the rows of other commits: they never were on the driver.
        more = f", and those of {len(output.commits)} large table(s)" if output.commits else ""
        count, seconds = sum(map(len, output.rows.values())), time.monotonic() - self._began_at
        log.info("round %d: %s; %d row(s)%s in %.1f s", step.round, news.says, count, more, seconds)


def _is_final(error: Exception) -> bool:
    """Whether a lost round cannot be made another time either: its fold fails, or its input is
    gone.
    """
    is_fold = isinstance(error, FoldError) or broken_cluster(error) is not None
    is_gone = isinstance(error, (AnalysisException, KeyError)) or any(
        each in java_text(error) for each in _GONE
    )
    return is_fold or is_gone or isinstance(error, LakeError)


def job_of(history: Callable[[], History[Any]]) -> Job:
    """A job that makes a history alone, once, or until it is stopped. Exits with CROSSED if a
    cluster is left out.
    """

    def run(spark: SparkSession, config: Config, once: bool) -> int:
        ensure_lake(spark, config.lake)
        engine = Engine(spark, config, history())
        engine.catch_up(whole=once)
        while not once:
            time.sleep(LOOK_EVERY_S)
            engine.catch_up()
        return CROSSED if engine.left_out else 0

    return run


def again_of(history: Callable[[], History[Any]]) -> OfCluster:
    """Computes the history of a cluster again."""

    def run(spark: SparkSession, config: Config, cluster: str) -> None:
        ensure_lake(spark, config.lake)
        engine = Engine(spark, config, history())
        engine.again(cluster)
        engine.catch_up(whole=True)

    return run
