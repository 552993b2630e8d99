"""Upkeep whenever it is due, by a pipeline or by one run after another."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.histories import HISTORIES
from jobs.rounds.engine import Engine
from jobs.upkeep.lake_clock import ClockError
from jobs.upkeep.upkeep import check_clock, keep_up, next_due

log = logging.getLogger("kafka_metadata_history.upkeep")


def upkeep(spark: SparkSession, config: Config) -> Callable[[], None]:
    """Keeps the tables up whenever that is due."""
    waits = False

    def work() -> None:
        nonlocal waits
        waits = keep_up_when_due(spark, config, waits=waits)

    return work


def keep_up_when_due(spark: SparkSession, config: Config, *, waits: bool = False) -> bool:
    """Keep the tables up if that is due; whether it waits for a better clock, which is logged if it
    did not before (`waits`).
    """
    now = datetime.now(UTC)
    if next_due(spark, config.lake, now) > now:
        return False
    try:
        check_clock(spark, config.lake, now)
        take_what_is_left(spark, config)
        keep_up(spark, config.lake, config.bronze_retention, config.kept, now)
    except ClockError as error:  # A later one will do.
        if not waits:
            log.warning("upkeep waits: %s", error)
        return True
    return False


def take_what_is_left(spark: SparkSession, config: Config) -> None:
    """Take what bronze still keeps for histories that the configuration wants no more."""
    for history in HISTORIES:
        if not history.wanted(config) and history().waits(spark, config):
            Engine(spark, config, history()).catch_up(whole=True)
