"""Fetch the jars that Delta needs on Spark into .jars/delta, once. Spark's own jars come with pyspark."""

import hashlib
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from local_cluster.ivy import fetch_jars

DELTA = "4.4.0"
JARS = (
    ("io.delta", "delta-spark_4.2_2.13", DELTA),
    ("io.delta", "delta-storage", DELTA),
    ("io.delta", "delta-kernel-api", DELTA),
    ("io.delta", "delta-kernel-defaults", DELTA),
    ("io.delta", "delta-kernel-unitycatalog", DELTA),
    ("io.unitycatalog", "unitycatalog-client", "0.6.0"),
    ("io.unitycatalog", "unitycatalog-hadoop", "0.6.0"),
)
SHA_256 = {
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "delta-kernel-api": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "delta-kernel-defaults": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "delta-kernel-unitycatalog": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "unitycatalog-client": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    "unitycatalog-hadoop": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
}
"""Module -> of its jar: a repository that serves other bytes is refused."""


class JarError(RuntimeError):
    """Raised for a jar that is not the one that this was written with. One line."""


def main() -> None:
    """Fetch the jars unless just they are there. Raises JarError."""
    folder = Path(__file__).resolve().parent.parent / ".jars" / "delta"
    # The folder's name says no version: Spark's configuration names it, and every jar in it.
    if {jar.name for jar in folder.glob("*.jar")} != {f"{module}-{revision}.jar" for _, module, revision in JARS}:
        fetch(folder)


def fetch(folder: Path) -> None:
    """Fetch each jar without its dependencies (they are Spark's own, 700 MB of them), then show all of them at once.

    Raises JarError, and shows none, for a jar of other bytes.
    """
    with TemporaryDirectory(dir=_made(folder.parent)) as scratch:
        together = Path(scratch) / "delta"
        together.mkdir()
        for organisation, module, revision in JARS:
            for jar in fetch_jars(organisation, module, revision, Path(scratch) / module, transitive=False):
                found = hashlib.sha256(jar.read_bytes()).hexdigest()
                if found != SHA_256[module]:
                    raise JarError(f"{jar.name}: its SHA-256 is {found}, and {SHA_256[module]} in tools/delta_jars.py")
                jar.rename(together / jar.name)
        shutil.rmtree(folder, ignore_errors=True)
        together.rename(folder)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    main()
