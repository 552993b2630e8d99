"""Whole commands of the Makefile, timed once."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from benchmarks.product import ROOT, ProductError
from benchmarks.results import Measured, Results

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.results import Say


def demo(folder: Path, say: Say, _runs: int) -> Results:
    """Measure demo_s."""
    return {"demo_s": _made("demo", folder, say)}


def tests(folder: Path, say: Say, _runs: int) -> Results:
    """Measure test_s."""
    return {"test_s": _made("test", folder, say)}


def _made(target: str, folder: Path, say: Say) -> Measured:
    start = time.perf_counter()
    log = folder / "log"
    with log.open("wb") as output:
        status = subprocess.run(
            ["make", target], cwd=ROOT, stdout=output, stderr=output, check=False
        ).returncode
    seconds = time.perf_counter() - start
    if status:
        raise ProductError(
            f"make {target} ended with status {status}: {log.read_text(errors='replace')[-2000:]}"
        )
    say(f"make {target} took {seconds:.0f} s")
    return Measured(seconds, (seconds,))
