"""Commands of the documents, as a newcomer's shell runs them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.repository import ROOT


def run_in_new_shell(command: str, **variables: str) -> str:
    """What a command prints that is run in the repository's root with the environment activated; it
    must succeed.

    `variables`: of the environment, beside those of a shell that was opened just now.
    """
    activate = Path(sys.executable).with_name("activate")
    # The tests' own PYSPARK_PYTHON would hide a command that lacks it.
    login = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_", "SPARK_"))
    }
    done = subprocess.run(
        ["bash", "-c", f". {activate} && {command}"],
        env=login | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
