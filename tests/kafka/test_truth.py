"""Things are done to a cluster while it is polled; then history is held against the controllers' own log."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from schemas import gold
from truth.report import Verdict, judge
from truth.run import NEWEST, run

SEED = 281
"""Its plan has something of everything: tests/unit/test_truth_chaos.py."""
SECONDS = 60


@pytest.fixture(scope="module")
def verdict(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    folder = tmp_path_factory.mktemp("truth")
    done = run(spark, NEWEST, Path(folder), seed=SEED, seconds=SECONDS, intervals=[1], say=print)
    found = judge(spark, done, 1)
    print(found)
    return found


def test_history_agrees_with_the_log(verdict: Verdict) -> None:
    assert verdict.faults == []
    # Polls that found nothing, or a log in which nothing happened, would agree too.
    assert verdict.states.claims > 1000
    assert verdict.epochs.transitions > 50
    assert verdict.events["ISR, by silver"].expected > 50
    assert verdict.events[gold.LEADER_CHANGES.full_name].decided > 20
    assert verdict.events[gold.ISR_CHANGES.full_name].decided > 20
