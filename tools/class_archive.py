"""Make .jars/spark.jsa: the classes that a first run of the jobs loads, as Java keeps them (JEP 350).

With this archive Spark starts in half the time. Java takes it only beside the jars that it was made with, and loads
classes as ever where it is missing.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from truth.session import default_settings

ROOT = Path(__file__).resolve().parent.parent
ARCHIVE = Path(".jars", "spark.jsa")
TAKES = f"-XX:SharedArchiveFile={ARCHIVE}"


class ArchiveError(RuntimeError):
    """Raised when the first run fails. One line, and what the run printed."""


def main() -> None:
    """Run everything once, and keep what that loads."""
    with TemporaryDirectory(prefix="class-archive-", dir=ROOT / ARCHIVE.parent) as scratch:
        made = Path(scratch, ARCHIVE.name)
        options = default_settings()["spark.driver.extraJavaOptions"]
        command = [
            *(str(Path(sys.executable).with_name("spark-submit")), "--properties-file", "conf/spark-defaults.conf"),
            *("--driver-java-options", options.replace(TAKES, f"-XX:ArchiveClassesAtExit={made}")),
            *("tools/first_run.py", scratch),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not made.exists():
            raise ArchiveError(f"the first run ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
        made.rename(ROOT / ARCHIVE)


if __name__ == "__main__":
    main()
