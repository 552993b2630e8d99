"""The jars that Delta needs on Spark, fetched once. Spark's own jars come with pyspark."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_metadata_history.jars.fetch import JARS, fetch_jars

DELTA = "4.4.0"
MODULES = (
    ("io.delta", "delta-spark_4.2_2.13", DELTA),
    ("io.delta", "delta-storage", DELTA),
    ("io.delta", "delta-kernel-api", DELTA),
    ("io.delta", "delta-kernel-defaults", DELTA),
    ("io.delta", "delta-kernel-unitycatalog", DELTA),
    ("io.unitycatalog", "unitycatalog-client", "0.6.0"),
    ("io.unitycatalog", "unitycatalog-hadoop", "0.6.0"),
)
LICENCE = "Apache-2.0"
"""Of all of them, by their POMs."""


def main() -> None:
    """Fetch the jars unless just they are there. Raises JarsError."""
    folder = JARS / "delta"
    # The folder's name says no version: Spark's configuration names it, and every jar in it.
    if {jar.name for jar in folder.glob("*.jar")} != {
        f"{module}-{revision}.jar" for _, module, revision in MODULES
    }:
        fetch(folder)


def fetch(folder: Path) -> None:
    """Fetch each jar without its dependencies (they are Spark's own, 700 MB of them), then show all
    of them at once.

    Raises JarsError, and shows none, for a jar of other bytes.
    """
    with TemporaryDirectory(dir=_made(folder.parent)) as scratch:
        together = Path(scratch) / "delta"
        together.mkdir()
        for organisation, module, revision in MODULES:
            for jar in fetch_jars(
                organisation, module, revision, Path(scratch) / module, transitive=False
            ):
                jar.rename(together / jar.name)
        shutil.rmtree(folder, ignore_errors=True)
        together.rename(folder)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
