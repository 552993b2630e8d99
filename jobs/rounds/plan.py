"""Rounds: planned, folded, committed, done. Killed anywhere and run again, they give the same
tables.

internal.rounds has a row for each step, under numbers without holes that all jobs of a lake share.
Delta takes a number once, so two jobs cannot plan the same round. Each history has one writer at a
time: a job that starts says so, and takes over; the one before finds the row when it plans next,
and ends.

A round is folded from the tables as they were before it. Whoever plans one has opened them before
the plan is written. Each commit names its round, so a planned round that is not done is folded
again from the versions before those commits. A round is done with the append of its rows to
internal.states: a history that has such a row of a round, or of a later one, is done with the
round. If a table has lost its part of the last one since, that round is folded again, too.
"""

import json
import secrets
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.rounds.commit import CONFLICTS, append_rows, newest_version, replace_rows, version_of
from jobs.rounds.lost_rounds import done_metadata, lost_rounds
from jobs.rules.memory import dumps
from schemas.internal import ROUNDS, STATE, retention_of
from schemas.lake import TABLES, Lake, LakeError
from schemas.table import Table

PlanJson = dict[str, Any]
"""The polls, offsets and thresholds that a round takes, fit for JSON."""

State = dict[str, Any]
"""A row of internal.states."""

States = dict[tuple[str, str], State]
"""By history and alias."""

ALL_STATES_EVERY = 20
"""The first round of a history after so many, of all histories, writes the states of all clusters
in the place of all rows before, of which an append would leave ever more.
"""


_NO_OTHERS: Mapping[str, Collection[str]] = {}


class OvertakenError(LakeError):
    """Raised when another run has taken over a history that this one was making. One line."""


@dataclass(frozen=True)
class Step:
    """A row of internal.rounds."""

    round: int
    step: str
    histories: frozenset[str]
    writer: str
    takes: PlanJson = field(default_factory=dict)


def unfinished(
    steps: Iterable[Step], done: Mapping[str, int], histories: Collection[str]
) -> list[Step]:
    """The planned rounds of these histories that are not done, in order, but for those whose writer
    had been overtaken by then, and those before another one of a history of theirs. `done`: the
    last round of each history that is.

    A writer that has been overtaken looks at the steps before its plan, and commits nothing.
    Whoever plans a round has finished, or given up, what was planned of its histories before:
    tables may have parts of what came after it.
    """
    last_started: dict[str, str] = {}
    found: list[Step] = []
    for each in sorted(steps, key=lambda each: each.round):
        if each.step == "started":
            last_started |= dict.fromkeys(each.histories, each.writer)
        elif all(
            last_started.get(history, each.writer) == each.writer
            and done.get(history, 0) < each.round
            for history in each.histories
        ):
            found = [before for before in found if before.histories.isdisjoint(each.histories)] + [
                each
            ]
    return [each for each in found if not each.histories.isdisjoint(histories)]


def steps_of(
    steps: Iterable[Step], numbers: Container[int], histories: Collection[str]
) -> list[Step]:
    """The planned rounds of some numbers that are of these histories, in order."""
    found = (each for each in steps if each.step == "planned" and each.round in numbers)
    return sorted(
        (each for each in found if each.histories.intersection(histories)),
        key=lambda each: each.round,
    )


def overtaken_by(steps: Iterable[Step], writer: str, histories: Collection[str]) -> Step | None:
    """The step after a writer's own last by which another one has taken over a history."""
    started = (each for each in steps if each.step == "started" and each.writer != writer)
    return next((each for each in started if each.histories.intersection(histories)), None)


class Rounds:
    """The rounds of one job, which is the writer of `histories` from now on.

    `other_states`: history -> other rows of internal.states that its rounds write. `to_finish`:
    rounds that an earlier run has planned and not done. `lost`: those that are done, and that
    tables have lost since.
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        histories: Sequence[str],
        other_states: Mapping[str, Collection[str]] = _NO_OTHERS,
    ) -> None:
        self._spark, self._lake, self._other_states = spark, lake, other_states
        self.histories = frozenset(histories)
        self.writer = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        self._last = self._read().selectExpr("max(round)").collect()[0][0] or 0
        self._add("started", {}, datetime.now(UTC))
        # Nobody else may commit what is planned from now on, but those who planned before this job
        # said that it starts may. Rounds that are done are left out by Spark: there are as many as
        # the lake is old.
        done = last_done(spark, lake)
        of_own = [done.get(history, 0) for history in histories]
        self._done = max(of_own)
        lost = {each.round: each for each in lost_rounds(lake)}
        numbers = ", ".join(map(str, lost)) or "NULL"
        steps = self._steps(f"round > {min(of_own)} OR step = 'started' OR round IN ({numbers})")
        self.to_finish = unfinished(steps, done, self.histories)
        self.lost = [(step, lost[step.round]) for step in steps_of(steps, lost, self.histories)]

    def plan(self, plan: PlanJson, now: datetime) -> Step:
        """Say what a round takes. Raises OvertakenError where another job makes a history now."""
        step, before = self._add("planned", plan, now)
        if (other := overtaken_by(before, self.writer, self.histories)) is not None:
            raise OvertakenError(
                f"another run ({other.writer}) makes {', '.join(sorted(other.histories))} of "
                f"{self._lake} now; nothing is lost, this one ends"
            )
        return step

    def done(self, step: Step, states: Iterable[State], tables: Iterable[Table] = ()) -> None:
        """Say that a planned round is in the tables. `states`: the rows of the histories after it.
        `tables`: those that it has written.
        """
        written = step.histories.union(
            *(self._other_states.get(history, ()) for history in step.histories)
        )
        rows = [row for row in states if row["history"] in written]
        # Histories share the numbers, and one may never have a round with a certain remainder.
        is_whole = step.round // ALL_STATES_EVERY > self._done // ALL_STATES_EVERY
        self._done = step.round
        metadata = done_metadata(step.round, tables)
        if not is_whole:
            of_round = [row for row in rows if row["round"] == step.round]
            append_rows(self._spark, self._lake, STATE, of_round, metadata=metadata)
        else:
            names = ", ".join(f"'{history}'" for history in sorted(written))
            where = f"history IN ({names})"
            replace_rows(
                self._spark, self._lake, STATE, rows, where, number=step.round, metadata=metadata
            )

    def is_begun(self, step: Step) -> bool:
        """Whether a table has the commit of a planned round."""
        made = (each for each in TABLES if each.schema != "bronze" and each not in (ROUNDS, STATE))
        found = (version_of(self._spark, self._lake, table, step.round) for table in made)
        return any(version is not None for version in found)

    def _add(self, kind: str, plan: PlanJson, at: datetime) -> tuple[Step, list[Step]]:
        """Append a step under the next free number; returns it, and the steps since the last."""
        number = self._last + 1
        while True:
            step = Step(number, kind, self.histories, self.writer, plan)
            with suppress(*CONFLICTS):  # Somebody else was first.
                row = vars(step) | {"histories": sorted(self.histories), "at": at}
                row["takes"] = json.dumps(plan, separators=(",", ":")) if plan else None
                append_rows(self._spark, self._lake, ROUNDS, [row], number)
            steps = self._steps(f"round > {self._last}")
            if any((each.round, each.writer) == (number, self.writer) for each in steps):
                self._last = number
                return step, [each for each in steps if each.round < number]
            number = max((each.round for each in steps), default=number - 1) + 1

    def _steps(self, where: str) -> list[Step]:
        rows = self._read().where(where).select("round", "step", "histories", "writer", "takes")
        return [
            Step(
                row.round,
                row.step,
                frozenset(row.histories),
                row.writer,
                json.loads(row.takes or "{}"),
            )
            for row in rows.collect()
        ]

    def _read(self) -> DataFrame:
        return self._lake.read(self._spark, ROUNDS)


def last_done(spark: SparkSession, lake: Lake, version: int | None = None) -> dict[str, int]:
    """The last round of each history that is done. `version`: as of `states_of`."""
    rows = _states(spark, lake, version).groupBy("history").agg(F.max("round").alias("round"))
    return {row.history: row.round for row in rows.collect()}


def states_of(
    spark: SparkSession, lake: Lake, before: int | None = None, version: int | None = None
) -> States:
    """The state of each history and alias, as in internal.state; or as it was before a round, which
    the run that planned it may be about to end. `version`: of internal.states; None: the newest
    one.
    """
    rows = _states(spark, lake, version)
    return newest_states(rows.where("true" if before is None else f"round < {before}"))


def _states(spark: SparkSession, lake: Lake, version: int | None) -> DataFrame:
    return lake.read(spark, STATE) if version is None else lake.read_version(spark, STATE, version)


def newest_states(rows: DataFrame) -> States:
    """The state of each history and alias, of rows of internal.states."""
    newest = F.max_by(F.struct(*STATE.column_names), "round").alias("row")
    found = (
        rows.groupBy("history", "cluster").agg(newest).select("row.*").where("memory IS NOT NULL")
    )
    return {
        (row["history"], row["cluster"]): row
        for row in found.toArrow().to_pylist(maps_as_pydicts="strict")
    }


def state_of(history: str, cluster: str, memory: object, **columns: object) -> State:
    """The row of internal.states that a round is about to write; its `round` is not known yet."""
    row = dict.fromkeys(STATE.column_names) | {"history": history, "cluster": cluster}
    return row | {"memory": dumps(memory)} | columns


class NewestStates:
    """The rows of internal.states of all histories, read again where there are more."""

    def __init__(self) -> None:
        self._version, self._states = -1, States()
        self._lock = Lock()  # Histories look side by side, and one of them reads.

    def read(self, spark: SparkSession, lake: Lake) -> States:
        """By history and alias."""
        with self._lock:
            if (version := newest_version(spark, lake, STATE)) != self._version:
                self._states, self._version = states_of(spark, lake), version
            return self._states


def with_rows(states: States, rows: Iterable[State]) -> States:
    """States with these rows in the place of those of the same history and alias."""
    return states | {(row["history"], row["cluster"]): row for row in rows}


def kept_since(states: States, schema: str) -> datetime | None:
    """From when on the tables of a schema are whole; None where retention has dropped nothing."""
    row = states.get((retention_of(schema), ""))
    return None if row is None else row["done_at"]
