"""The engine of histories: it plans a round of news, folds it, commits its tables side by side and
notes it as done.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.configuration.limits import CROSSED
from jobs.rounds import commit
from jobs.rounds.aside import ASIDE_OF, Aside
from jobs.rounds.commit import Commit, delete_rows, replace_rows, version_of
from jobs.rounds.history import Context, History, Made, News, Run
from jobs.rounds.live import LiveRows, in_parts, parts_of, replaced
from jobs.rounds.lost_rounds import LostRound
from jobs.rounds.plan import Rounds, State, States, Step, Takes, states_of
from jobs.rounds.stage import FoldError, broken_cluster, frame_of
from jobs.rules.memory import from_json, to_json
from jobs.run.cli import Job, OfCluster, one_line
from jobs.run.driver import JAVA_ERRORS, java_text
from schemas.in_spark import ensure_lake
from schemas.internal import ROUNDS, STATE
from schemas.lake import TABLES, LakeError

log = logging.getLogger("kafka_metadata_history.rounds")

_FAILED: tuple[type[Exception], ...] = (FoldError, PySparkException, *JAVA_ERRORS)
"""The errors of a round that may be of one cluster's fold."""

_GONE = ("FILE_NOT_EXIST", "FileNotFoundException")
"""Errors where an older version of a table has to be read whose files VACUUM has taken."""

LOOK_EVERY_S = 1.0
"""How often a job that runs alone looks for what is new."""


class Engine:
    """Makes a history in rounds. When it starts, it finishes those that an earlier run has
    planned.
    """

    def __init__(
        self, spark: SparkSession, config: Config, history: History[Any], run: Run | None = None
    ) -> None:
        self._spark, self.lake, self._config, self.history = spark, config.lake, config, history
        self._run = run or Run()
        self._replacing = commit.can_replace(spark)
        self._writers = ThreadPoolExecutor(4, "commits")
        self._live = LiveRows(spark, config.lake)
        self._rounds = Rounds(spark, config.lake, history.names, history.beside)
        self.aside = Aside()
        self._aside_rows: dict[str, State] = {}
        """By alias, the rows of internal.states of the clusters whose fold has failed."""
        self._aside_of = f"{ASIDE_OF}{history.names[0]}"
        self._planning: Future[Step] | None = None
        self._in_round: Collection[str] = frozenset()
        """The clusters that the last round has folded."""
        self._states: States
        """Those whose round is None say more than the last round has written."""
        self._parsed: dict[tuple[str, str], tuple[str, Any]] = {}
        self._began_at = time.monotonic()
        self._noted_at = datetime.now(UTC)
        for step, lost in self._rounds.lost:
            self._make_again(step, lost)
        broken: dict[str, str] = {}
        for step in self._rounds.to_finish:
            log.info("round %d was planned and not done: it is made again", step.round)
            self._states = states_of(spark, self.lake, step.round)
            try:
                self._finish(step, LiveRows(spark, self.lake, step.round))
            except _FAILED as error:
                # Of a round of which nothing is in the tables, later ones take what can be folded.
                if (found := broken_cluster(error)) is None or self._is_begun(step):
                    raise
                broken |= dict([found])
        self._states = states_of(spark, self.lake)
        self._aside_rows = {
            of: row for (history, of), row in self._states.items() if history == self._aside_of
        }
        self.aside.tried = dict.fromkeys(self._aside_rows, 1)
        for cluster, why in broken.items():
            self._set_aside(cluster, why)
        self._go_back()

    def round(self, now: datetime) -> bool:
        """Make one round of what is new; whether there is more, as far as it is known."""
        context = self.context()
        news: News | None = self.history.look(context, now)
        if news is None:
            return False
        self._in_round = news.clusters
        step = self._plan(to_json(news.takes), now) if news.is_due else None
        made = self.history.make(context, news)
        if step is None and not made.rows:
            states = self._with(self.history.after(context, news, None))
            is_late = now - self._noted_at > self.history.noted_after
            if not is_late or all(row["round"] is not None for row in states.values()):
                self._states = states
                return news.is_more is True
        step = step or self._plan(to_json(news.takes), now)
        self._write(step(), context, news, made)
        self._noted_at = now
        return news.is_more is not False

    def _finish(self, step: Step, live: LiveRows) -> None:
        """Fold and commit again what an earlier run has planned and not done. `live`: of before the
        round.
        """
        if "again" in step.takes:
            self._forget(step)
            return
        context = self.context(live)
        news = self.history.again(context, from_json(self.history.input_type, step.takes))
        self._write(step, context, news, self.history.make(context, news))

    def again(self, cluster: str) -> None:
        """Take a cluster out of the history: the next rounds make it again. Raises LakeError where
        that cannot be.
        """
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
            self.aside,
            self._parsed,
        )

    def _with(self, rows: Iterable[State]) -> States:
        return self._states | {(row["history"], row["cluster"]): row for row in rows}

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
            "Rows of that round "
            "are missing there%s",
            *(tables, step.round, why, todo),
        )

    def catch_up(self, *, whole: bool = False) -> None:
        """Make rounds until nothing is new. `whole`: news that say nothing are noted too."""
        self._try_again()
        while self._timed_round(datetime.now(UTC)):
            pass
        if whole:
            self._timed_round(datetime.now(UTC) + self.history.noted_after)

    def _timed_round(self, now: datetime) -> bool:
        """One round; without a cluster whose fold fails in it, of which nothing is taken then."""
        self._began_at, self._planning, self._in_round = time.monotonic(), None, frozenset()
        try:
            is_more = self.round(now)
        except _FAILED as error:
            if (broken := broken_cluster(error)) is None or broken[0] in self.aside:
                raise
            if self._is_in_table():
                # Large tables are folded while they are committed: the next run makes this round
                # again.
                raise
            self._set_aside(*broken)
            self._go_back()  # The round had looked at what it did not take of others either.
            return True
        if well := self.aside.succeed(self._in_round):
            self._note_aside(
                {alias: row for alias, row in self._aside_rows.items() if alias not in well}
            )
            log.warning(
                "cluster(s) %s are part of the history of %s again", ", ".join(well), self._names
            )
        return is_more

    def _try_again(self) -> None:
        """Try clusters again that were left out for long enough: each once, however long the rounds
        without it take.
        """
        if self.aside.take_back():
            self._go_back()

    def _plan(self, takes: Takes, now: datetime) -> Callable[[], Step]:
        """Plan a round while it is folded, since a fold writes nothing; returns what waits for the
        plan.
        """
        self._planning = self._writers.submit(self._rounds.plan, takes, now)
        return self._planning.result

    def _go_back(self) -> None:
        """Look again for what was passed over of clusters that were left out. Some of them are to
        be tried again.
        """
        self._states = self._with(self.history.go_back(self.context()))

    def _set_aside(self, cluster: str, why: str) -> None:
        """Leave a cluster out of rounds for a while, and let `status` say so."""
        seconds, known = self.aside.put(cluster), self._aside_rows.get(cluster)
        if known is None or known["why"] != why:
            since = datetime.now(UTC) if known is None else known["done_at"]
            row = {
                "history": self._aside_of,
                "cluster": cluster,
                "round": 0,
                "done_at": since,
                "why": why,
                "memory": "{}",
            }
            self._note_aside(self._aside_rows | {cluster: row})
        log.error(
            "cluster %s is left out of the history of %s for %.0f s, since its fold failed: %s. "
            "Bronze keeps what was "
            "not taken%s; upgrade the program, or report this line",
            *(
                cluster,
                self._names,
                seconds,
                why,
                "" if self.history.needed else ", until it is as old as its retention",
            ),
        )

    def _note_aside(self, rows: dict[str, State]) -> None:
        where = f"history = '{self._aside_of}'"
        if rows:
            replace_rows(self._spark, self.lake, STATE, rows.values(), where)
        elif self._aside_rows:
            delete_rows(self._spark, self.lake, STATE, where)
        self._aside_rows = rows

    @property
    def _names(self) -> str:
        return ", ".join(sorted(self._rounds.histories))

    def _is_in_table(self) -> bool:
        """Whether a table has the commit of this round, once it is planned: the next plan would
        meet one on its way.
        """
        return self._planning is not None and self._is_begun(self._planning.result())

    def _is_begun(self, step: Step) -> bool:
        """Whether a table has the commit of a planned round."""
        made = (
            table for table in TABLES if table.schema != "bronze" and table not in (ROUNDS, STATE)
        )
        return any(
            version_of(self._spark, self.lake, table, step.round) is not None for table in made
        )

    def _write(self, step: Step, context: Context, news: News, made: Made) -> None:
        """Commit what a round has made, its tables side by side, and say that the round is done.

        Each changed row takes the place of the live row with its key, or is appended.
        """
        commits, kept = list(made.others), []
        for table, changed in made.rows.items():
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
        states = self._with((*made.states, *self.history.after(context, news, made)))
        states = {
            key: row | {"round": step.round} if row["round"] is None else row
            for key, row in states.items()
        }
        self._rounds.done(step, states.values(), [each.table for each in commits])
        self._states = states
        for table, parts, rows in kept:
            context.live.put(table, parts, rows)
        self.history.done(self.context(), news)
        # Nobody has counted the rows of other commits: they never were on the driver.
        more = f", and those of {len(made.others)} large table(s)" if made.others else ""
        count, seconds = sum(map(len, made.rows.values())), time.monotonic() - self._began_at
        log.info("round %d: %s; %d row(s)%s in %.1f s", step.round, news.says, count, more, seconds)


def _is_final(error: Exception) -> bool:
    """Whether a lost round will not be made again another time either: a fold fails, or what it
    needs is gone.
    """
    is_fold = isinstance(error, FoldError) or broken_cluster(error) is not None
    is_gone = isinstance(error, (AnalysisException, KeyError)) or any(
        each in java_text(error) for each in _GONE
    )
    return is_fold or is_gone or isinstance(error, LakeError)


def job_of(history: Callable[[], History[Any]]) -> Job:
    """A job that makes a history alone: until nothing is new, or on and on. Its exit status says
    whether a cluster was left out.
    """

    def run(spark: SparkSession, config: Config, once: bool) -> int:
        ensure_lake(spark, config.lake)
        engine = Engine(spark, config, history())
        engine.catch_up(whole=once)
        while not once:
            time.sleep(LOOK_EVERY_S)
            engine.catch_up()
        return CROSSED if engine.aside else 0

    return run


def again_of(history: Callable[[], History[Any]]) -> OfCluster:
    """Computes the history of a cluster again."""

    def run(spark: SparkSession, config: Config, cluster: str) -> None:
        ensure_lake(spark, config.lake)
        engine = Engine(spark, config, history())
        engine.again(cluster)
        engine.catch_up(whole=True)

    return run
