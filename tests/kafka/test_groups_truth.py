"""Things are done to real groups; then rebalance history is held against what their members and coordinators said."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from truth.groups.compare import Score
from truth.groups.run import run
from truth.groups.script import CONSUMER, COOPERATIVE

SEED = 281
"""Its scripts have something of everything: tests/unit/test_truth_groups.py."""


@pytest.fixture(scope="module")
def scores(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Score]:
    folder = Path(tmp_path_factory.mktemp("truth-groups"))
    found = run(spark, [COOPERATIVE, CONSUMER], folder, seed=SEED, say=print).scores()
    for group, score in found.items():
        print(group, score)
    return found


def test_history_agrees_with_what_happened(scores: dict[str, Score]) -> None:
    assert [f"{group}, {fault}" for group, score in scores.items() for fault in score.faults] == []
    # A history of nothing, or nothing that happened, would agree too.
    assert len(scores) == 2
    for score in scores.values():
        assert score.steps > 15
        assert score.rebalances > 15
        assert score.members > 40
        assert score.events >= 2
