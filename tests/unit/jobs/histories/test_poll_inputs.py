"""The rows of bronze that come to the fold of polls."""

import random
from datetime import timedelta

import pytest

from jobs.configuration.config import Config
from jobs.histories.polls import Polls
from jobs.rounds.engine import Engine
from schemas import silver
from schemas.bronze import METADATA_POLLS
from schemas.table import Table
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import START, RandomCluster
from tests.support.memory_lake import MemoryLake, without_spark


@pytest.mark.parametrize(("kind", "table"), silver.ENRICHMENTS.items())
def test_an_answer_of_each_kind_becomes_silver(kind: str, table: Table) -> None:
    answers = RandomCluster("a", random.Random(7), kinds=[kind]).answers(12)
    with without_spark():
        lake = MemoryLake()
        lake.append(METADATA_POLLS, bronze_rows("a", answers))
        Engine(None, Config(lake, "", {}), Polls()).round(START + timedelta(days=1))
    assert lake.rows(table).num_rows
