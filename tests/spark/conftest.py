"""Lakes that several files of tests take on."""

import pytest
from pyspark.sql import SparkSession

from schemas.lake import Lake
from schemas.table import Table
from tests.support.bronze_rows import bronze_rows
from tests.support.histories import RandomCluster
from tests.support.kills import KilledError, beside, killed_after
from tests.support.poll_lakes import (
    LATER,
    POLLS,
    Tables,
    all_compared,
    by_rules,
    copied,
    history_of,
    optimize,
    versions,
    with_polls,
    written_since,
)
from tests.support.stored import Row


@pytest.fixture(scope="package")
def polls() -> list[Row]:
    """Of two rounds of six polls, each of which changes many tables."""
    clusters = RandomCluster("c0", 2, kinds=["configs"]), RandomCluster("c1", 9, kinds=["configs"])
    return [
        row for cluster in clusters for row in bronze_rows(cluster.alias, cluster.answers(POLLS))
    ]


@pytest.fixture(scope="package")
def polled(spark: SparkSession, polls: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with these polls, which are not history yet."""
    return with_polls(spark, tmp_path_factory.mktemp("polled"), polls)


@pytest.fixture(scope="package")
def whole_rows(polls: list[Row]) -> dict[Table, list[Row]]:
    """The rows of all tables when all of it is made, by the rules in one process."""
    return by_rules(polls)


@pytest.fixture(scope="package")
def whole(whole_rows: dict[Table, list[Row]]) -> Tables:
    """The same, fit to be compared."""
    return all_compared(whole_rows)


@pytest.fixture(scope="package")
def half(spark: SparkSession, polled: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake in which the first half of it was made, in one round. That was killed, and finished by
    another run, between whose commits there were those of upkeep.
    """
    lake = copied(polled, tmp_path_factory.mktemp("half"))
    with killed_after(3), pytest.raises(KilledError):
        history_of(spark, lake, polls_per_round=6).round(LATER)

    before = versions(lake)
    with beside(5, lambda: optimize(spark, lake, *written_since(before, lake))):
        history_of(spark, lake, polls_per_round=6)
    return lake
