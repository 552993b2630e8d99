"""Lakes that are exported to a folder, and imported into others."""

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from jobs.configuration.config import Config
from jobs.copies.exported import exported
from jobs.copies.imported import imported
from schemas.lake import Lake


def written(spark: SparkSession, lake: Lake, place: Path, cluster: str | None = None) -> Path:
    """Export a lake, or a cluster of it, to a place, and return the place."""
    assert [*exported(spark, lake, str(place), cluster)]
    return place


def taken(spark: SparkSession, lake: Lake, place: Path) -> list[str]:
    """Import what is there into a lake; the lines that the import says."""
    config = Config(lake, f"{lake.root}/_checkpoints", {}, {}, bronze_retention=timedelta(days=7))
    return [*imported(spark, config, str(place))]


def moved(spark: SparkSession, lake: Lake, folder: Path) -> Lake:
    """A new lake in a new folder that has all that this lake has."""
    place = written(spark, lake, folder / "copy")
    new = Lake(root=str(folder / "lake"))
    assert taken(spark, new, place)
    return new
