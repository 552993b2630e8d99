"""The evidence of a run for and against history."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from pyspark.sql import SparkSession

from schemas import gold, incidents, silver
from truth import lake, plain
from truth.chaos import Entry
from truth.compare import (
    EpochScore,
    StateScore,
    compare_brokers,
    compare_epochs,
    compare_states,
)
from truth.compare_answers import Reassigned, compare_kinds, compare_reassignments
from truth.compare_events import HEADINGS as EVENT_HEADINGS
from truth.compare_events import EventScore, IsrChange, LeaderChange
from truth.compare_incidents import Observed, compare_findings
from truth.compare_isrs import compare_isr_changes
from truth.compare_leaders import compare_counts, compare_leader_changes
from truth.compare_log import LogScore, compare_log
from truth.compare_spells import (
    Episode,
    Incident,
    Led,
    Setting,
    SpellScore,
    compare_balance,
    compare_episodes,
    compare_incidents,
)
from truth.compare_stale import Stale, compare_stale
from truth.compare_topics import TopicEnd, compare_topics
from truth.groups.compare import compare
from truth.groups.run import read_history
from truth.groups.score import Score as GroupScore
from truth.model.states import Truth
from truth.observed import Poll, Seen, Watch
from truth.run import Run

HEADINGS = ("set-up", "interval", "events", *EVENT_HEADINGS)
_LEAST_LOOK_AHEAD = 15
_LEVEL_OF_QUIET_SHRINKS = 12
"""Of metadata.version: 3.6-IV0, from which on a shrink leaves the epoch alone."""


@dataclass(frozen=True)
class Verdict:
    """How the lake of one poll interval agrees with the truth."""

    setup: str
    interval: int
    polls: str
    states: StateScore
    brokers: StateScore
    epochs: EpochScore
    events: dict[str, EventScore]
    lasting: dict[str, SpellScore]
    groups: dict[str, GroupScore]
    refused: list[str]
    """Kinds of questions that got no answer."""
    failed_steps: list[str]
    """Things that were to be done to the cluster and were not."""

    @property
    def name(self) -> str:
        """Set-up and interval."""
        return f"{self.setup}, polled each {self.interval} s"

    @property
    def faults(self) -> list[str]:
        """Everything that should not be."""
        return [
            *(f"a state that never was: {each}" for each in self.states.wrong),
            *(
                f"a state that had ended {late.total_seconds():.3f} s before the tolerance"
                for late in self.states.late
            ),
            *(
                f"a broker's that had ended {late.total_seconds():.3f} s before it"
                for late in self.brokers.late
            ),
            *(
                f"a replica that was not offline, or was: {each}"
                for each in self.states.offline_wrong
            ),
            *(f"brokers: {each}" for each in self.brokers.wrong),
            *(f"nothing is said of {each}" for each in self.states.missing),
            *(f"epochs: {each}" for each in self.epochs.wrong),
            *(f"{name}, {fault}" for name, score in self.events.items() for fault in score.faults),
            *(f"{name}, {fault}" for name, score in self.lasting.items() for fault in score.faults),
            *(f"{name}, {fault}" for name, score in self.groups.items() for fault in score.faults),
            *(f"asked beside polls, {fault}" for fault in self.refused),
            *(f"a step failed: {step}" for step in self.failed_steps),
        ]

    def rows(self) -> list[tuple[str, ...]]:
        """For a table under HEADINGS."""
        return [
            (self.setup, f"{self.interval} s", name, *score.row())
            for name, score in self.events.items()
        ]

    def __str__(self) -> str:
        scores = {
            "states": self.states,
            "brokers": self.brokers,
            "epochs": self.epochs,
            **self.lasting,
            **self.groups,
        }
        return "\n".join(
            [f"  {self.polls}", *(f"  {name}: {score}" for name, score in scores.items())]
        )


def judge(run: Run, interval: int, spark: SparkSession | None = None) -> Verdict:
    """Compare the lake of one interval with the truth: silver, events of silver alone, gold; and
    groups, if something was done to them, with a session.
    """
    polls, seen, watch = _observed(run, interval)
    where = run.lakes[interval].lake
    shrinks_raise = run.truth.level("metadata.version") < _LEVEL_OF_QUIET_SHRINKS
    left_out = [poll.left_out for poll in polls if poll.left_out]
    leaders, isr = (
        plain.leader_changes(seen, watch, shrinks_raise=shrinks_raise),
        plain.isr_changes(seen, watch),
    )
    return Verdict(
        setup=run.setup.name,
        interval=interval,
        polls=(
            f"{len(polls)} good polls, {lake.failed_polls(where)} failed; "
            f"{len(polls) - len(watch.polls)} answers were older than what was known; left out "
            f"since their broker was paused {left_out.count('paused')}, started "
            f"{left_out.count('started')}"
        ),
        states=compare_states(seen, watch, run.truth),
        brokers=compare_brokers(lake.brokers(where), watch, run.truth),
        epochs=compare_epochs(seen, run.truth, shrinks_raise=shrinks_raise),
        events={
            "leaders, by silver": compare_leader_changes(leaders, seen, watch, run.truth),
            "ISR, by silver": compare_isr_changes(isr, watch, run.truth, look_ahead=None),
            **_judge_gold(run, interval, seen, watch, leaders),
        },
        lasting=_judge_lasting(run, interval, watch),
        groups={} if spark is None else _judge_groups(spark, run, interval),
        refused=_refused(run, interval),
        failed_steps=failed_steps(run.journal),
    )


def _judge_groups(spark: SparkSession, run: Run, interval: int) -> dict[str, GroupScore]:
    if run.groups is None:
        return {}
    history, played = read_history(spark, run.lakes[interval].lake), run.groups
    return {group: compare(each, history, played.moves) for group, each in played.happened.items()}


def _refused(run: Run, interval: int) -> list[str]:
    if run.groups is None:
        return []
    until = run.groups.moves[0].began_at
    answers = lake.answered(run.lakes[interval].lake)
    return list(compare_kinds(answers, run.journal, until, run.setup.kinds))


def failed_steps(journal: Sequence[Entry]) -> list[str]:
    """The steps that did not go as wanted, and why."""
    return [_failed(entry) for entry in journal if entry.error is not None]


def failed_on_nodes(journal: Sequence[Entry]) -> list[str]:
    """Those of them that were done to nodes.

    What is asked of a cluster may fail while it elects a controller.
    """
    return [_failed(entry) for entry in journal if entry.error is not None and entry.nodes]


def _failed(entry: Entry) -> str:
    return f"{entry.what}: {entry.error}"


def _judge_gold(
    run: Run,
    interval: int,
    seen: Sequence[Seen],
    watch: Watch,
    by_silver: Sequence[LeaderChange],
) -> dict[str, EventScore]:
    where, truth = run.lakes[interval].lake, run.truth
    rows = with_ids(lake.rows_of(where, gold.LEADER_CHANGES, LeaderChange), truth, _begin)
    leaders = compare_leader_changes(rows, seen, watch, truth)
    compare_counts(rows, by_silver, leaders)
    # What was out when the partition was seen first did not leave then.
    departed = "began_after IS NOT NULL AND change != 'initially_out'"
    changes = with_ids(lake.rows_of(where, gold.ISR_CHANGES, IsrChange, departed), truth, _begin)
    isr = compare_isr_changes(changes, watch, truth, look_ahead=_look_ahead(interval))
    return {gold.LEADER_CHANGES.full_name: leaders, gold.ISR_CHANGES.full_name: isr}


def _judge_lasting(run: Run, interval: int, watch: Watch) -> dict[str, SpellScore]:
    where, truth = run.lakes[interval].lake, run.truth
    settings = lake.rows_of(where, silver.TOPIC_CONFIGS, Setting)
    episodes = with_ids(lake.rows_of(where, gold.ISR_EPISODES, Episode), truth, _begin)
    of_brokers = lake.rows_of(where, gold.BROKER_INCIDENTS, Incident)
    balance = lake.rows_of(where, gold.LEADER_BALANCE, Led)
    stale = lake.rows_of(where, gold.STALE_BROKERS, Stale)
    moves = lake.rows_of(where, silver.REASSIGNMENTS, Reassigned)
    ends = lake.rows_of(where, silver.TOPIC_SNAPSHOTS, TopicEnd, "end_reason IS NOT NULL")
    witnesses = lake.witnesses(where)
    observed = Observed(watch.polls[-1].received_at, watch, settings)
    told = compare_findings(lake.told(where), observed, truth, run.journal)
    return {
        gold.ISR_EPISODES.full_name: compare_episodes(episodes, settings, watch, truth),
        gold.BROKER_INCIDENTS.full_name: compare_incidents(of_brokers, settings, watch, truth),
        gold.LEADER_BALANCE.full_name: compare_balance(balance, watch, truth),
        gold.STALE_BROKERS.full_name: compare_stale(stale, witnesses, run.journal, watch, truth),
        silver.REASSIGNMENTS.full_name: compare_reassignments(moves, truth),
        silver.TOPIC_SNAPSHOTS.full_name: compare_topics(ends, watch, truth),
        incidents.INCIDENTS.full_name: told,
    }


def judge_log(run: Run) -> tuple[LogScore, SpellScore] | None:
    """Compare the lake of the controllers' log with the truth: its tables, and incidents. None:
    there is no such log.
    """
    if run.log is None:
        return None
    where, until = run.log.lake, run.journal[-1].ended_at
    told = compare_findings(lake.told(where), Observed(until), run.truth, run.journal)
    return compare_log(where, run.truth, run.journal), told


_Row = TypeVar("_Row", LeaderChange, IsrChange, Episode, Seen)


def with_ids(rows: Sequence[_Row], truth: Truth, at: Callable[[_Row], datetime]) -> list[_Row]:
    """The rows of partitions, those without a topic id with the one that the truth has.

    `at`: when a row begins.
    """
    return [
        row if row.topic_id is not None else replace(row, topic_id=truth.id_of(row.topic, at(row)))
        for row in rows
    ]


def _begin(row: LeaderChange | IsrChange | Episode) -> datetime:
    return row.began_before


def _observed(run: Run, interval: int) -> tuple[list[Poll], list[Seen], Watch]:
    where = run.lakes[interval].lake
    polls = lake.polls(where, run.journal)
    at = {poll.poll_id: poll.received_at for poll in polls}
    states = with_ids(lake.states(where), run.truth, lambda row: at[row.first_poll])
    return polls, states, Watch.over(polls, run.setup.tolerance(interval))


def _look_ahead(interval: int) -> timedelta:
    return timedelta(seconds=max(2 * interval, _LEAST_LOOK_AHEAD))
