"""What Spark runs in tests: its JVM's options, and the Python of its workers."""

import sys
import tempfile
from functools import cache
from pathlib import Path

from truth.session import default_settings

SMALL_JVM = (
    f"{default_settings()['spark.driver.extraJavaOptions']} -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote -XX:MetaspaceSize=256m -XX:NewRatio=1"
)
"""For a Spark that shares two cores with others."""

LONG_LIVED_JVM = SMALL_JVM.replace(
    "-XX:TieredStopAtLevel=1",
    # Six times the defaults: what is not that hot is not worth compiling again.
    "-XX:Tier4InvocationThreshold=30000 -XX:Tier4MinInvocationThreshold=3600 "
    "-XX:Tier4CompileThreshold=90000 -XX:Tier4BackEdgeThreshold=240000",
)
"""For one that runs hundreds of tests: after some minutes code that C2 compiled has paid for
that.
"""

_FOLDER = tempfile.TemporaryDirectory(prefix="worker-python-")


@cache
def worker_python() -> str:
    """This Python, without Spark's zipped copy of PySpark before the installed one.

    Out of a zip Python keeps no bytecode: every start compiles all of it again, two seconds of a
    core. Spark gives a stream's Python ten seconds in all to answer, whatever else the machine has
    to do.
    """
    command = Path(_FOLDER.name) / "python"
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH#*/py4j-*-src.zip:}}" exec "{sys.executable}" "$@"\n'
    )
    command.chmod(0o755)
    return str(command)
