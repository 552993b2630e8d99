"""Things are done to real clusters and groups; then history is held against the controllers' own
log, and against what members and coordinators said. In short: `make truth` does more, and
tests/kafka/test_pipeline.py all of it at once.
"""

import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.group_scores import check_scores
from tests.support.lakes import new_lake
from tests.support.verdicts import check_verdict
from truth.compare_log import compare_log
from truth.costs.play import KINDS as COST_KINDS
from truth.costs.play import LONG, SHORT
from truth.costs.run import run as run_costs
from truth.costs.score import Score
from truth.groups.run import run as run_groups
from truth.groups.script import CONSUMER, COOPERATIVE
from truth.report import judge
from truth.run import run
from truth.setups import NEWEST

SEED, SECONDS = 19993, 40.0
"""Its plan has something of everything: tests/unit/truth/test_chaos.py."""


def test_history_agrees_with_the_log(spark: SparkSession, tmp_path: Path) -> None:
    for lake in ("every-1s", "log"):
        new_lake(spark, tmp_path / lake / "lake")
    done = run(spark, NEWEST, tmp_path, seed=SEED, seconds=SECONDS, intervals=[1], say=print)
    check_verdict(judge(done, 1), claims=500, transitions=30, decided=10)
    exact = compare_log(done.log.lake, done.truth, done.journal)
    print(exact)
    assert exact.faults == []
    assert exact.compared["leader changes"] > 30
    assert exact.compared["ISR changes"] > 30
    assert exact.compared["broker states"] > 10


@pytest.mark.soak
def test_rebalances_agree_with_what_happened(spark: SparkSession, tmp_path: Path) -> None:
    new_lake(spark, tmp_path / "lake")
    seed = secrets.randbelow(
        100_000
    )  # which run() prints: `python -m truth.groups --seed` does the same things
    scores = run_groups(spark, [COOPERATIVE, CONSUMER], tmp_path, seed=seed, say=print).scores()
    check_scores(scores, groups=4, steps=20)


@pytest.mark.soak
def test_cost_and_lag_of_a_group_agree_with_what_workers_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    new_lake(spark, tmp_path / "lake")
    careless = [kind for kind in COST_KINDS if kind.name == "careless"]
    (score,) = run_costs(spark, careless, SHORT, tmp_path, say=print).values()
    check_costs(score, rows=8, pauses=4, lags=1)
    assert score.reprocessed > 0


@pytest.mark.soak
def test_cost_and_lag_of_groups_of_each_kind_agree_with_what_workers_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    new_lake(spark, tmp_path / "lake")
    scores = run_costs(spark, COST_KINDS, LONG, tmp_path, say=print)
    for score in scores.values():
        check_costs(score, rows=20, pauses=10, lags=3)
    assert scores["costs-careless"].reprocessed > 0


def check_costs(score: Score, *, rows: int, pauses: int, lags: int) -> None:
    assert score.faults == []
    assert score.rows >= rows
    assert score.pauses >= pauses
    assert score.recovered >= pauses
    assert score.longest_ms > 2_000
    assert score.lags >= lags
    assert score.at_rest >= 1
