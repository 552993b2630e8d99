"""The checkpoint of polls of an older version: after an upgrade a new stream takes its place.

The checkpoints of both logs are of this version in all lakes that are upgraded.
"""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.run.driver import rename_folder
from jobs.run.metadata_stream import QUERY
from jobs.upkeep.upgrade import begins_stream


def set_aside(spark: SparkSession, config: Config) -> Iterator[str]:
    """Let polls begin a new stream after an upgrade that takes one, once: what is there beside the
    older checkpoint is the new stream's.
    """
    there, to = config.checkpoint(QUERY), _older(config)
    if begins_stream(spark, config.lake) and rename_folder(spark, there, to):
        yield f"{there} is {to} now: polls begin a new stream"


def put_back(spark: SparkSession, config: Config) -> Iterator[str]:
    """Let polls continue the stream that they were in before an upgrade that was taken back."""
    there, to = _older(config), config.checkpoint(QUERY)
    if rename_folder(spark, there, f"{there}-back"):
        rename_folder(spark, to, f"{to}-undone")
        rename_folder(spark, f"{there}-back", to)
        yield f"{to} is that of the older program again"


def _older(config: Config) -> str:
    return f"{config.checkpoint(QUERY)}-before-upgrade"
