"""Things are done to real groups; then rebalance history is held against what their members and coordinators said."""

import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.lakes import new_lake
from tests.support.group_scores import check_scores
from truth.groups.run import run
from truth.groups.script import CONSUMER, COOPERATIVE


@pytest.mark.soak
def test_history_agrees_with_what_happened(spark: SparkSession, tmp_path: Path) -> None:
    new_lake(spark, tmp_path / "lake")
    seed = secrets.randbelow(100_000)  # which run() prints: `python -m truth.groups --seed` does the same things
    scores = run(spark, [COOPERATIVE, CONSUMER], tmp_path, seed=seed, say=print).scores()
    check_scores(scores, groups=4, steps=20)
