"""Where Java is."""

import os
import shutil
from pathlib import Path

from local_cluster.errors import LocalClusterError


def java_command() -> str:
    """Return the `java` to run: of JAVA_HOME if that is set, as in Kafka's scripts, or on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java" if home else "java")
    if found is None:
        where = f"under JAVA_HOME={home}" if home else "on the PATH"
        raise LocalClusterError(f"no java {where}: install Java 17 or newer, or set JAVA_HOME")
    return found
