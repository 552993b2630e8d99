"""Whatever happens to a lake and to those who make its history, its tables are those of one round
that took all.
"""

import json
from collections.abc import Collection
from contextlib import ExitStack, suppress
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from jobs.configuration.config import Config
from jobs.histories import poll_inputs
from jobs.histories.poll_plan import OF_POLLS
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from jobs.rounds.plan import OvertakenError
from jobs.rules.arrow import rows_of
from jobs.rules.memory import MemoryVersionError
from jobs.rules.round import SILVER
from schemas import gold, silver
from schemas.bronze import METADATA_POLLS
from schemas.internal import STATE
from tests.support.broken_folds import broken_for
from tests.support.bronze_rows import bronze_rows
from tests.support.examples import examples
from tests.support.histories import START, RandomCluster
from tests.support.kills import KilledError, killed_after, killed_at
from tests.support.large_rounds import as_text, in_memory
from tests.support.memory_lake import MemoryLake, without_spark

CLUSTERS = ("a", "b")
LATER = START + timedelta(days=1)
TABLES = (*silver.TABLES, *gold.TABLES)
ALL = tuple(OF_POLLS)
JOBS = [ALL, *((each,) for each in ALL)]


class LakeMachine(RuleBasedStateMachine):
    """Two clusters that are polled, and an engine that makes history, as long as it lives."""

    def __init__(self) -> None:
        super().__init__()
        self.within = ExitStack()
        self.within.enter_context(without_spark())
        self.lake = MemoryLake()
        self.brought = dict.fromkeys(CLUSTERS, 0)

    @initialize(chance=st.randoms(use_true_random=False), polls=st.integers(1, 8))
    def live(self, chance: object, polls: int) -> None:
        kinds = ["configs", "reassignments"]
        self.answers = {
            alias: RandomCluster(alias, chance, kinds=kinds).answers(polls) for alias in CLUSTERS
        }
        self.start(ALL, 60)

    @rule(names=st.sampled_from(JOBS), most=st.integers(1, 9))
    def start(self, names: Collection[str], most: int) -> None:
        """A job begins, of all histories or of one; it finishes what was planned of these."""
        config = Config(self.lake, "", {}, {}, None, polls_per_round=most)
        self.engine = Engine(None, config, Polls(names))

    @rule(alias=st.sampled_from(CLUSTERS), polls=st.integers(1, 4))
    def poll(self, alias: str, polls: int) -> None:
        since = self.brought[alias]
        self.brought[alias] += polls
        ids = {each.poll_id for each in self.answers[alias][since : self.brought[alias]]}
        rows = bronze_rows(alias, self.answers[alias])
        self.lake.append(METADATA_POLLS, [row for row in rows if row["poll_id"] in ids])

    @rule()
    def round(self) -> None:
        self.engine.round(LATER)

    @rule(commits=st.integers(0, 12))
    def is_killed_while_it_commits(self, commits: int) -> None:
        with killed_after(commits), suppress(KilledError):
            self.engine.round(LATER)
        self.start(ALL, 60)

    @rule(step=st.sampled_from(["plan", "done"]), before=st.booleans())
    def is_killed_at_a_step(self, step: str, before: bool) -> None:
        with killed_at(step, before=before), suppress(KilledError):
            self.engine.round(LATER)
        self.start(ALL, 60)

    @rule(names=st.sampled_from(JOBS))
    def is_overtaken(self, names: Collection[str]) -> None:
        """Another job takes over while this one makes its round."""
        before = self.engine
        self.start(names, 60)
        with suppress(OvertakenError):
            before.round(LATER)

    @rule(alias=st.sampled_from(CLUSTERS))
    def fails_for_a_cluster(self, alias: str) -> None:
        with broken_for(poll_inputs, alias):
            self.engine.catch_up()

    @rule(alias=st.sampled_from(CLUSTERS))
    def is_made_again(self, alias: str) -> None:
        if any((name, alias) in self.engine.context().states for name in self.engine.history.names):
            self.engine.again(alias)

    @precondition(lambda self: self.lake.lately_written)
    @rule(which=st.integers(0, 20))
    def loses_power(self, which: int) -> None:
        """A table has lost its part of the last round."""
        written = self.lake.lately_written
        self.lake.lose(written[which % len(written)])
        self.start(ALL, 60)

    @rule(alias=st.sampled_from(CLUSTERS))
    def meets_a_newer_memory(self, alias: str) -> None:
        """A newer program has written what silver remembers; this one refuses."""
        rows = rows_of(self.lake.rows(STATE))
        kept = [row for row in rows if (row["history"], row["cluster"]) == (SILVER, alias)]
        if not kept or kept[-1]["memory"] is None:
            return
        before = {table: [*commits] for table, commits in self.lake.commits.items()}
        newer = json.loads(kept[-1]["memory"]) | {"memory_version": 99}
        self.lake.append(STATE, [kept[-1] | {"memory": json.dumps(newer), "round": 10**6}])
        with pytest.raises(MemoryVersionError, match="in version 99"):
            self.start_and_round()
        self.lake.commits.update(before)
        self.start(ALL, 60)

    def start_and_round(self) -> None:
        self.start(ALL, 60)
        self.round()

    def teardown(self) -> None:
        try:
            if hasattr(self, "answers"):
                self.start(ALL, 60)
                while self.engine.round(LATER):
                    pass
                self.check()
        finally:
            self.within.close()

    def check(self) -> None:
        bronze = rows_of(self.lake.rows(METADATA_POLLS))
        expected = in_memory(bronze)
        for table in TABLES:
            found = as_text(table, rows_of(self.lake.rows(table)))
            assert found == expected[table.full_name], table.full_name


LakeMachine.TestCase.settings = settings(
    max_examples=examples(6),
    stateful_step_count=12,
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
test_whatever_happens_the_tables_are_those_of_one_round = LakeMachine.TestCase
