"""Keep the classes that a first run loads, as Java keeps them (JEP 350): `python -m
tools.class_archive spark|kafka`.

With .jars/spark.jsa Spark starts in half the time; so does a broker of the local cluster, with
.jars/kafka-4.4.0.jsa. Java takes an archive only beside the jars that it was made with, and loads
classes as ever where it is missing.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka_metadata_history.jars.fetch import JARS
from local_cluster import LocalCluster
from local_cluster.cluster import KAFKA_VERSION
from local_cluster.jars import kafka_classes
from truth.session import default_settings

ROOT = Path(__file__).resolve().parent.parent
SPARK = Path(".jars", "spark.jsa")
TAKES = f"-XX:SharedArchiveFile={SPARK}"


class ArchiveError(RuntimeError):
    """Raised when the first run fails. One line, and what the run printed."""


def keep(archive: Path) -> str:
    """Java's option that keeps the classes of a run when that ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"


def of_spark(scratch: Path) -> Path:
    """Run all jobs once; the archive of what that loads, in `scratch`. Raises ArchiveError."""
    made = scratch / SPARK.name
    options = default_settings()["spark.driver.extraJavaOptions"]
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--properties-file",
        "conf/spark-defaults.conf",
        *("--driver-java-options", options.replace(TAKES, keep(made))),
        *("tools/first_run.py", str(scratch)),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode or not made.exists():
        raise ArchiveError(
            f"the first run ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return made


def of_kafka(scratch: Path) -> Path:
    """Start a broker and stop it; the archive of what that loads, in `scratch`.

    Raises ArchiveError.
    """
    made = scratch / "kafka.jsa"
    with LocalCluster(1, java_options=[keep(made)]) as cluster:
        made.unlink(missing_ok=True)  # of the tool that formats data
        cluster.stop(1)
    if not made.exists():
        raise ArchiveError(
            f"a broker of Kafka {KAFKA_VERSION} ended and left no archive of its classes"
        )
    return made


ARCHIVES = {"spark": (of_spark, ROOT / SPARK), "kafka": (of_kafka, kafka_classes(KAFKA_VERSION))}


def main(name: str) -> None:
    """Make one of them, in place of one that is there."""
    make, archive = ARCHIVES[name]
    archive.unlink(missing_ok=True)
    JARS.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="class-archive-", dir=JARS) as scratch:
        make(Path(scratch)).rename(archive)


if __name__ == "__main__":
    main(sys.argv[1])
