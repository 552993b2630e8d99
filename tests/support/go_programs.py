"""Programs that are Go modules of tests: go.sum has the checksums of all that they are built of."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

USUAL_PLACE: Final = "/usr/local/go/bin/go"
GO: Final = shutil.which("go") or shutil.which(USUAL_PLACE)
BUILD_S: Final = 1200
"""promtool and helm take four to six minutes on two cores the first time; then seconds, as Go keeps
what it has built.
"""
TOOLS: Final = ROOT / "tests" / "unit" / "repository" / "go"


def built(module: Path, folder: Path, package: str = ".") -> Path:
    """Build a package of a module into a folder. `package`: `tool` is the one that go.mod names.
    Skips the test where there is no Go.
    """
    if GO is None:
        pytest.skip("there is no Go on this machine (go.dev/dl)")
    program = folder / module.name
    build = [GO, "build", "-mod=readonly", "-o", str(program), package]
    subprocess.run(build, cwd=module, check=True, timeout=BUILD_S)
    return program
