"""The checkpoint of polls of another version: a new stream takes its place.

The checkpoints of both logs are of this version in all lakes that are upgraded. An older stream is
not continued after an undo either: history takes no poll of it after those of a newer one.
"""

from collections.abc import Iterator
from datetime import datetime

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.run.driver import rename_folder
from jobs.run.metadata_stream import QUERY
from jobs.upkeep.upgrade import stream_begins


def set_aside_once(spark: SparkSession, config: Config) -> Iterator[str]:
    """Let polls begin a new stream after an upgrade that takes one. Done again it does nothing:
    the checkpoint beside the older one is that of the new stream.
    """
    began = stream_begins(spark, config.lake)
    if began is not None:
        yield from set_aside(spark, config, began)


def set_aside(spark: SparkSession, config: Config, at: datetime) -> Iterator[str]:
    """Let polls begin a new stream. `at`: since when; of each time once."""
    there = config.checkpoint(QUERY)
    to = f"{there}-until-{at:%Y%m%dT%H%M%SZ}"
    if rename_folder(spark, there, to):
        yield f"{there} is {to} now: polls begin a new stream"
