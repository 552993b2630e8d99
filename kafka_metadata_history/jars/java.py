"""Where Java is."""

import os
import shutil
from pathlib import Path

from kafka_metadata_history.jars.errors import JarsError


def java_command() -> str:
    """The `java` to run: of JAVA_HOME if that is set, as in Kafka's scripts, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home) / "bin" / "java" if home else "java")
    if found is None:
        where = f"under JAVA_HOME={home}" if home else "on the PATH"
        raise JarsError(f"no java {where}: install Java 17 or newer, or set JAVA_HOME")
    return found
