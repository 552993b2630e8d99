"""Things are done to real clusters, groups and transactions; then history is held against the
controllers' own log, and against what members, producers and coordinators said. In short: `make
truth` does more, and tests/kafka/test_pipeline.py all of it at once.
"""

import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.group_scores import check_scores
from tests.support.lakes import new_lake
from tests.support.verdicts import check_verdict
from truth.groups.run import run as run_groups
from truth.groups.score import Score
from truth.groups.script import CONSUMER, COOPERATIVE, WORKING, Kind
from truth.report import judge, judge_log
from truth.run import run
from truth.setups import NEWEST
from truth.transactions.run import run as run_transactions
from truth.transactions.script import SHORT, write

SEED, SECONDS = 19993, 40.0
"""Its plan has something of everything: tests/unit/truth/test_chaos.py."""


def test_history_agrees_with_the_log(spark: SparkSession, tmp_path: Path) -> None:
    for lake in ("every-1s", "log"):
        new_lake(spark, tmp_path / lake / "lake")
    done = run(spark, NEWEST, tmp_path, seed=SEED, seconds=SECONDS, intervals=[1], say=print)
    check_verdict(judge(done, 1), claims=500, transitions=30, decided=10)
    exact, incidents = judge_log(done)
    print(exact, incidents, sep="\n")
    assert exact.faults == incidents.faults == []
    assert incidents.claims > 10
    assert exact.compared["leader changes"] > 30
    assert exact.compared["ISR changes"] > 30
    assert exact.compared["broker states"] > 10


def test_transactions_agree_with_what_producers_did(spark: SparkSession, tmp_path: Path) -> None:
    new_lake(spark, tmp_path / "lake")
    seed = secrets.randbelow(100_000)
    print(f"python -m truth.transactions --tracks {' '.join(SHORT)} --seed {seed}")
    score = run_transactions(spark, write(seed, SHORT), tmp_path, say=print)
    print(score)
    assert score.faults == []
    assert score.transactions > 20
    assert score.rows >= score.aborts >= 4
    assert score.held_up >= 1


@pytest.mark.soak
def test_rebalances_agree_with_what_happened(spark: SparkSession, tmp_path: Path) -> None:
    scores = run_of(spark, tmp_path, [COOPERATIVE, CONSUMER])
    check_scores(scores, groups=4, steps=20)


@pytest.mark.soak
def test_costs_and_lag_agree_with_what_members_did(spark: SparkSession, tmp_path: Path) -> None:
    scores = run_of(spark, tmp_path, WORKING)
    check_scores(scores, groups=2 * len(WORKING), steps=8)
    for kind in WORKING:
        score = scores[f"truth-{kind.name}"]
        assert score.costs >= 20
        assert score.recovered >= score.pauses >= 10
        assert score.longest_ms > 2_000
        assert score.lags >= 3
        assert score.at_rest >= 1
    assert scores["truth-careless"].reprocessed > 0


def run_of(spark: SparkSession, folder: Path, kinds: Sequence[Kind]) -> dict[str, Score]:
    new_lake(spark, folder / "lake")
    # run() prints the seed: `python -m truth.groups --seed` does the same things.
    return run_groups(spark, kinds, folder, seed=secrets.randbelow(100_000), say=print)
