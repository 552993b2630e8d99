"""The Python that Spark's workers run in tests."""

import sys
import tempfile
from functools import cache
from pathlib import Path

_FOLDER = tempfile.TemporaryDirectory(prefix="worker-python-")


@cache
def worker_python() -> str:
    """This Python, without Spark's zipped copy of PySpark before the installed one.

    Out of a zip Python keeps no bytecode: every start compiles all of it again, two seconds of a core. Spark gives a
    stream's Python ten seconds in all to answer, whatever else the machine has to do.
    """
    command = Path(_FOLDER.name) / "python"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="${{PYTHONPATH#*/py4j-*-src.zip:}}" exec "{sys.executable}" "$@"\n')
    command.chmod(0o755)
    return str(command)
